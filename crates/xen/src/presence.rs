//! Whether this is a host of Xen's, and which part of it.

use lowtail_kernel::Roots;
use lowtail_kernel::file;

/// What this system is to Xen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does not run on Xen.
    Absent,
    /// It is a guest: it sees nothing of the other domains.
    Guest,
    /// It is the control domain, dom0.
    ControlDomain,
}

impl Presence {
    /// By `/sys/hypervisor/type`, and the capability `control_d` in `/proc/xen/capabilities`.
    pub fn of(roots: &Roots) -> Self {
        let kind = file::text(&roots.sys.join("hypervisor/type"), 64).unwrap_or_default();
        if kind.trim() != "xen" {
            return Presence::Absent;
        }
        let capabilities = file::text(&roots.proc.join("xen/capabilities"), 4096);
        let controls = |text: String| text.split_whitespace().any(|word| word == "control_d");
        match capabilities.is_ok_and(controls) {
            true => Presence::ControlDomain,
            false => Presence::Guest,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_control_domain_says_so_itself() {
        let place = tempfile::tempdir().expect("a directory");
        let roots = Roots { proc: place.path().join("proc"), sys: place.path().join("sys") };
        assert_eq!(Presence::of(&roots), Presence::Absent);
        for dir in [roots.proc.join("xen"), roots.sys.join("hypervisor")] {
            fs::create_dir_all(dir).expect("a directory");
        }
        let kind = |text: &str| fs::write(roots.sys.join("hypervisor/type"), text).expect("a file");
        let may =
            |text: &str| fs::write(roots.proc.join("xen/capabilities"), text).expect("a file");
        kind("xen\n");
        assert_eq!(Presence::of(&roots), Presence::Guest);
        may("\n");
        assert_eq!(Presence::of(&roots), Presence::Guest);
        may("control_d\n");
        assert_eq!(Presence::of(&roots), Presence::ControlDomain);
        kind("other\n");
        assert_eq!(Presence::of(&roots), Presence::Absent);
    }
}
