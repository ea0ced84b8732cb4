//! Names of physical CPUs, virtual CPUs, domains and control groups.

/// A physical CPU (pCPU), numbered from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pcpu(pub u16);

/// A virtual CPU (vCPU), numbered from zero through all domains of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vcpu(pub u16);

/// A domain: one VM, numbered from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dom(pub u16);

/// A control group of a Linux host, numbered from zero in the order of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cgroup(pub u16);

impl Cgroup {
    /// As an index into per-group tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Pcpu {
    /// As an index into per-pCPU tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Vcpu {
    /// As an index into per-vCPU tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Dom {
    /// As an index into per-domain tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
