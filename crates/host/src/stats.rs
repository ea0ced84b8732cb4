//! What pCPUs have done and vCPUs have experienced.

use lowtail_engine::{Duration, Hist, Time};

use crate::record::Record;

/// What a pCPU has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct PcpuStats {
    /// Times the scheduler was entered.
    pub schedules: u64,
    /// Times another vCPU than before was given the pCPU (idle does not count).
    pub switches: u64,
    /// Time with a vCPU on it, from decision to decision.
    pub busy: Duration,
}

/// What a vCPU has experienced.
#[derive(Debug, Clone, Default)]
pub struct VcpuStats {
    /// Processor time given to it, from decision to decision as a hypervisor counts it.
    pub cpu: Duration,
    /// The part of that in which its work went on.
    pub work: Duration,
    /// Times it was woken.
    pub wakes: u64,
    /// Times it was given a pCPU.
    pub runs: u64,
    /// Times it lost its pCPU though it could have gone on.
    pub preempted: u64,
    /// From waking to executing.
    pub wakeup_latency: Hist,
    /// From losing the pCPU while runnable to executing again.
    pub preemption_latency: Hist,
}

/// The longest wait from waking to running of the watched vCPU, and what led to it.
#[derive(Debug, Clone)]
pub struct Worst {
    /// When it woke.
    pub woke: Time,
    /// When it ran.
    pub ran: Time,
    /// The schedule up to then, oldest record first.
    pub records: Vec<Record>,
}
