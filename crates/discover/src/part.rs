//! What a thread does, by its name and its control group.
//!
//! QEMU names threads with `debug-threads=on`, which libvirt sets: `accel/kvm/kvm-accel-ops.c`,
//! `accel/tcg/tcg-accel-ops-*.c`, `iothread.c`. Firecracker: `src/vmm/src/vstate/vcpu.rs`. Cloud Hypervisor:
//! `vmm/src/cpu.rs`, `vmm/src/lib.rs`, and `spawn_virtio_thread` in `virtio-devices`. vhost workers:
//! `drivers/vhost/vhost.c`; they are kernel threads before Linux 6.4, then threads of the process (commit
//! 6e890c5d5021).

use std::path::Path;

use super::{Kind, Role};

/// No hypervisor here has more vCPUs (`KVM_MAX_VCPU_IDS` of x86 is 4096).
const VCPU_MAX: u16 = 4096;

/// What a name says; numbers are not all in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Vcpu(u16),
    Emulator,
    /// With its number, if the name has one.
    Io(Option<u16>),
    Vhost,
    Worker,
}

/// What the thread does. `own` is its control group, below the VM's.
pub(super) fn part(kind: Kind, comm: &str, own: Option<&Path>, main: bool) -> Part {
    if vhost_owner(comm).is_some() {
        return Part::Vhost;
    }
    if let Some(part) = of_group(own) {
        return part;
    }
    let by_name = match kind {
        Kind::Libvirt | Kind::Qemu => qemu(comm),
        Kind::Firecracker => firecracker(comm),
        Kind::CloudHypervisor => cloud_hypervisor(comm),
        Kind::Declared | Kind::Kvm | Kind::Xen => {
            qemu(comm).or_else(|| firecracker(comm)).or_else(|| cloud_hypervisor(comm))
        }
    };
    let main = main && !matches!(kind, Kind::Declared | Kind::Kvm | Kind::Xen);
    by_name.unwrap_or(if main { Part::Emulator } else { Part::Worker })
}

/// libvirt puts each vCPU and each I/O thread into a group of its own, also where threads have no names. All
/// others are in `emulator`, which says nothing.
pub(super) fn of_group(own: Option<&Path>) -> Option<Part> {
    let name = own?.file_name()?.to_str()?;
    let vcpu = || vcpu(name.strip_prefix("vcpu")?);
    vcpu().or_else(|| number(name.strip_prefix("iothread")?).map(|n| Part::Io(Some(n))))
}

fn qemu(comm: &str) -> Option<Part> {
    // One thread for all of them.
    if comm == "ALL CPUs/TCG" {
        return Some(Part::Vcpu(0));
    }
    if let Some(rest) = comm.strip_prefix("CPU ") {
        let (number, accelerator) = rest.split_once('/')?;
        let known = matches!(accelerator, "KVM" | "TCG" | "MSHV");
        return vcpu(number).filter(|_| known);
    }
    match comm.strip_prefix("IO ")? {
        "mon_iothread" => Some(Part::Emulator),
        id => Some(Part::Io(last_number(id))),
    }
}

fn firecracker(comm: &str) -> Option<Part> {
    vcpu(comm.strip_prefix("fc_vcpu ")?)
}

fn cloud_hypervisor(comm: &str) -> Option<Part> {
    if comm == "vmm" {
        return Some(Part::Emulator);
    }
    let device = || {
        // `_net0_qp1`, `_disk0_q0`: the device's name, the queue's number. Names of ours begin with an underscore,
        // the user's as they like.
        let (_, queue) = comm.rsplit_once("_q")?;
        number(queue.strip_prefix('p').unwrap_or(queue)).map(|_| Part::Io(None))
    };
    comm.strip_prefix("vcpu").and_then(vcpu).or_else(device)
}

/// The thread for which a vhost worker was started: `vhost-1234`.
pub(super) fn vhost_owner(comm: &str) -> Option<u32> {
    let digits = comm.strip_prefix("vhost-")?;
    digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn vcpu(digits: &str) -> Option<Part> {
    number(digits).filter(|n| *n < VCPU_MAX).map(Part::Vcpu)
}

/// Digits only: no sign, no blank.
fn number(digits: &str) -> Option<u16> {
    digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn last_number(id: &str) -> Option<u16> {
    number(&id[id.trim_end_matches(|c: char| c.is_ascii_digit()).len()..])
}

/// Gives numbers to the parts of a VM whose names have none, in order of the threads; says which vCPUs there are
/// twice: of those only the first is one.
pub(super) fn roles(parts: &[Part]) -> (Vec<Role>, Vec<u16>) {
    let mut vcpus = std::collections::BTreeSet::new();
    let mut twice = Vec::new();
    let named = |part: &Part| if let Part::Io(Some(n)) = part { Some(*n) } else { None };
    let taken: std::collections::BTreeSet<u16> = parts.iter().filter_map(named).collect();
    // Each is asked for once: a VM may have as many threads as it likes.
    let mut free = (0..u16::MAX).filter(|n| !taken.contains(n));
    let mut vhosts = 0u16;
    let roles = parts.iter().map(|part| match *part {
        Part::Vcpu(n) if vcpus.insert(n) => Role::Vcpu(n),
        Part::Vcpu(n) => {
            twice.push(n);
            Role::Worker
        }
        Part::Emulator => Role::Emulator,
        Part::Io(Some(n)) => Role::IoThread(n),
        Part::Io(None) => Role::IoThread(free.next().unwrap_or(u16::MAX)),
        Part::Vhost => {
            vhosts = vhosts.saturating_add(1);
            Role::Vhost(vhosts - 1)
        }
        Part::Worker => Role::Worker,
    });
    (roles.collect(), twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_hypervisor() {
        use Part::{Emulator, Io, Vcpu, Vhost, Worker};
        let by_name = |kind, comm| part(kind, comm, None, false);
        for (kind, comm, wanted) in [
            (Kind::Qemu, "CPU 0/KVM", Vcpu(0)),
            (Kind::Libvirt, "CPU 255/KVM", Vcpu(255)),
            (Kind::Qemu, "CPU 3/TCG", Vcpu(3)),
            (Kind::Qemu, "ALL CPUs/TCG", Vcpu(0)),
            (Kind::Qemu, "IO iothread7", Io(Some(7))),
            (Kind::Qemu, "IO fast", Io(None)),
            (Kind::Qemu, "IO mon_iothread", Emulator),
            (Kind::Qemu, "vnc_worker", Worker),
            (Kind::Qemu, "vhost-4711", Vhost),
            (Kind::Firecracker, "fc_vcpu 1", Vcpu(1)),
            (Kind::Firecracker, "fc_api", Worker),
            (Kind::CloudHypervisor, "vcpu12", Vcpu(12)),
            (Kind::CloudHypervisor, "vmm", Emulator),
            (Kind::CloudHypervisor, "_net0_qp1", Io(None)),
            (Kind::CloudHypervisor, "_disk2_q0", Io(None)),
            (Kind::CloudHypervisor, "http-server", Worker),
            (Kind::Declared, "fc_vcpu 1", Vcpu(1)),
            // Names of others, and names that only look like one.
            (Kind::Firecracker, "CPU 0/KVM", Worker),
            (Kind::Qemu, "CPU 4096/KVM", Worker),
            (Kind::Qemu, "CPU 99999/KVM", Worker),
            (Kind::Qemu, "CPU -1/KVM", Worker),
            (Kind::Qemu, "CPU +1/KVM", Worker),
            (Kind::Qemu, "CPU 1/KVM ", Worker),
            (Kind::Qemu, "CPU /KVM", Worker),
            (Kind::Qemu, "CPU 1/\u{1b}[2J", Worker),
            (Kind::Qemu, "vhost-", Worker),
            (Kind::Qemu, "vhost-99999999999", Worker),
            (Kind::CloudHypervisor, "vcpu", Worker),
            (Kind::Qemu, "", Worker),
        ] {
            assert_eq!(by_name(kind, comm), wanted, "{kind:?} {comm}");
        }
        let grouped = |own| part(Kind::Libvirt, "qemu-kvm", Some(Path::new(own)), false);
        assert_eq!(grouped("libvirt/vcpu2"), Vcpu(2));
        assert_eq!(grouped("iothread1"), Io(Some(1)));
        assert_eq!(grouped("emulator"), Worker);
        assert_eq!(part(Kind::Qemu, "qemu-system-x86", None, true), Emulator);
    }

    #[test]
    fn numbers_that_names_lack() {
        let parts = [Part::Vhost, Part::Io(None), Part::Io(Some(0)), Part::Vhost, Part::Io(None)];
        let wanted = [
            Role::Vhost(0),
            Role::IoThread(1),
            Role::IoThread(0),
            Role::Vhost(1),
            Role::IoThread(2),
        ];
        assert_eq!(roles(&parts), (wanted.to_vec(), vec![]));
        let twins = roles(&[Part::Vcpu(0), Part::Vcpu(1), Part::Vcpu(0)]);
        assert_eq!(twins, (vec![Role::Vcpu(0), Role::Vcpu(1), Role::Worker], vec![0]));
    }

    /// With a search from the first number for each thread, this takes minutes: it did, at every look at the host.
    #[test]
    fn as_many_threads_as_a_machine_likes() {
        let (roles, _) = roles(&vec![Part::Io(None); 1 << 20]);
        assert_eq!(roles[65_534], Role::IoThread(65_534));
        assert_eq!(roles[1 << 20 >> 1], Role::IoThread(u16::MAX));
    }
}
