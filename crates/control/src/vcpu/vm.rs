//! What a scheduler is told of VMs and their threads.

use std::path::PathBuf;

use lowtail_policy::{RATE_MAX, RATE_ONE};

/// A VM that a [`Scheduler`](super::Scheduler) has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VmId(pub(super) u32);

/// What a scheduler is told of a VM.
#[derive(Clone, Debug, Default)]
pub struct Vm {
    /// Its vCPUs: what it can use at most, and by what its turns are counted. 0 is 1.
    pub vcpus: u32,
    /// Its weight, 256 the usual one; `None`: that of its group, where a `cpu.weight` of 100 is the usual one.
    pub weight: Option<u16>,
    /// Its limit, beside that of its group.
    pub cap: Option<Cap>,
    /// The directory of the control group that is its alone, whose `cpu.weight` and `cpu.max` hold for it.
    pub group: Option<PathBuf>,
    /// Its threads: vCPUs, emulator, I/O threads, vhost workers.
    pub threads: Vec<Thread>,
}

/// A thread of a VM.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its own limit, beside that of its group.
    pub cap: Option<Cap>,
    /// The directory of a control group that holds this thread only, whose `cpu.max` holds for it.
    pub group: Option<PathBuf>,
}

/// A limit on run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// Hundredths of a percent of a CPU: 10,000 is one.
    pub basis_points: u32,
    /// What may be saved up, if it is more than the 20 ms' worth that the rule lets everybody.
    pub burst_ns: u32,
}

impl Cap {
    /// As a rate of the rule, 1 or more: 0 is none there.
    pub(super) fn rate(self) -> u32 {
        let rate = u64::from(self.basis_points) * u64::from(RATE_ONE) / 10_000;
        rate.clamp(1, RATE_MAX.into()) as u32
    }
}
