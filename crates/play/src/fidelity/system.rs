//! The real systems beside which the simulator is put.

use std::fmt;

use crate::report::{Report, Settings, version};

/// A kind of system; each has goals of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemKind {
    /// A Linux kernel, by threads, in a guest whose clock counts instructions.
    Linux,
    /// The same, on a host with the time of all hosts, beside whoever else is on it.
    LinuxHost,
    /// Networks that a Linux kernel has.
    Networks,
    /// A Linux kernel whose VMs small-first schedules, by threads, in a guest whose clock counts instructions.
    SmallFirst,
    /// A Xen, by guests.
    Xen,
}

impl SystemKind {
    /// Of a place, as `--on` has it.
    fn of(settings: &Settings) -> Option<Self> {
        let &Settings { exact_clock, networks, small_first, .. } = settings;
        match settings.on.split('=').next() {
            Some("kernel" | "guest") if networks => Some(SystemKind::Networks),
            Some("kernel" | "guest") if small_first => Some(SystemKind::SmallFirst),
            Some("guest") => Some(SystemKind::Linux),
            Some("kernel") if exact_clock => Some(SystemKind::Linux),
            Some("kernel") => Some(SystemKind::LinuxHost),
            Some("xen" | "dom0") => Some(SystemKind::Xen),
            _ => None,
        }
    }
}

/// A system and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct System {
    /// Its kind.
    pub kind: SystemKind,
    /// The first two numbers of its version.
    pub version: (u32, u32),
}

impl System {
    /// That of a report; `None` if the report names none that lowtail can check by.
    pub fn of(report: &Report) -> Option<Self> {
        let kind = SystemKind::of(&report.settings)?;
        let version = version(&report.kernel)?;
        Some(System { kind, version })
    }

    /// Its name in files: `linux-6.18`.
    pub fn id(&self) -> String {
        self.to_string().to_lowercase().replace(' ', "-")
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        let name = match self.kind {
            SystemKind::Linux => "Linux",
            SystemKind::LinuxHost => "Linux host",
            SystemKind::Networks => "Linux networks",
            SystemKind::SmallFirst => "Linux small-first",
            SystemKind::Xen => "Xen",
        };
        write!(f, "{name} {major}.{minor}")
    }
}
