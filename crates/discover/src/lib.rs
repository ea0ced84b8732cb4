//! Virtual machines that run on this host, found without anyone's help.
//!
//! A process is a VM if it holds one of KVM's, if it is in a control group of libvirt's that root has made, or if a
//! user whose word counts runs a program of a hypervisor's. Its vCPUs are the threads that run vCPUs of KVM's, or that
//! libvirt has put into groups of their own; without KVM they are told by the names that QEMU, Firecracker and Cloud
//! Hypervisor give them. Names are data: of the guest's, of the user's, of anybody's. They never decide which file is
//! opened; [`Origin`] says who has chosen a VM's.

mod declared;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod group;
mod kvm;
mod labels;
mod libvirt;
mod origin;
mod owner;
mod part;
mod process;
mod scanner;
mod tap;
mod task;
mod users;
mod vm;

pub use declared::is_interface;
pub use declared::{Declared, Target, Undeclared};
pub use lowtail_kernel::{Name, Roots};
pub use origin::{KnownBy, NamedBy, Origin};
pub use scanner::hierarchy;
pub use scanner::{Found, Scanner};
pub use task::{Stat, group as control_group};
pub use users::{Users, uid_of};
pub use vm::{Group, Kind, Role, Tap, Vm, VmThread};

/// Looks once. Who looks again and again keeps a [`Scanner`], which is cheaper.
pub fn scan(roots: &Roots, declared: &[Declared]) -> Found {
    Scanner::new(roots.clone(), declared.to_vec()).scan()
}

#[cfg(test)]
mod tests {
    use lowtail_engine::Rng;

    use super::*;
    use lowtail_testkit::seed::seed;

    /// Pieces that mean something somewhere, in any order and cut anywhere: nothing panics, nothing is longer than
    /// what it was made of.
    #[test]
    fn whatever_it_says() {
        const PIECES: [&str; 24] = [
            "machine-",
            "qemu-",
            r"\x2d",
            r"\x",
            ".scope",
            ".libvirt-qemu",
            "libvirt",
            "qemu",
            "/",
            "..",
            "1",
            "-",
            " (deleted)",
            "CPU ",
            "/KVM",
            "IO ",
            "vcpu",
            "_q",
            "vhost-",
            "99999",
            "\0-name\0",
            ",,guest=",
            ") S ",
            "é",
        ];
        let mut rng = Rng::new(seed(), "discover");
        let mut draw = |n: usize| rng.below(n as u64) as usize;
        for _ in 0..200_000 {
            let text: String = (0..draw(8)).map(|_| PIECES[draw(PIECES.len())]).collect();
            let mut end = draw(text.len() + 1);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let text = &text[..end];
            let group =
                task::group(&format!("0::/{text}"), Some(lowtail_kernel::cgroup::Version::V2));
            if let Some(domain) = group.and_then(|group| libvirt::Domain::of(&group)) {
                assert!(
                    domain.name.len() <= text.len() && domain.name(Some(text)).len() <= text.len()
                );
            }
            for kind in [Kind::Qemu, Kind::Firecracker, Kind::CloudHypervisor, Kind::Declared] {
                let name = process::name(kind, text);
                assert!(name.is_none_or(|name| name.len() <= text.len()), "{text}");
                part::part(kind, text, Some(text.as_ref()), false);
            }
            process::kind(text);
            process::is_probe(text);
            task::Stat::parse(text);
            let _ = text.parse::<Declared>();
        }
    }
}
