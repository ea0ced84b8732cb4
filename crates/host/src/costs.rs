//! What things cost in processor time and delay.
//!
//! The simulator has no number of its own: every cost comes from a file in
//! `costs/`, where each stands with its source.

use lowtail_engine::Duration;

/// The costs of one kind of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// From the event that wakes a vCPU to the scheduler's decision whom to tickle.
    pub wake_to_tickle: Duration,
    /// From tickling another pCPU that runs a guest to its scheduler being entered:
    /// an inter-processor interrupt and a VM exit.
    pub tickle_to_schedule: Duration,
    /// The same for a pCPU that is idle: it has to leave its idle state.
    pub tickle_to_schedule_idle: Duration,
    /// One pass through the scheduler, whoever is picked.
    pub schedule: Duration,
    /// Saving one vCPU and loading another, after the scheduler's pass.
    pub context_switch: Duration,
    /// Extra work of a vCPU that comes back to a pCPU where another vCPU has run
    /// meanwhile: its caches and TLBs are cold. Charged as its own run time.
    pub cold_cache: Duration,
}

impl Costs {
    /// Everything for nothing, for tests of a scheduler's rules.
    pub const FREE: Costs = Costs {
        wake_to_tickle: Duration::ZERO,
        tickle_to_schedule: Duration::ZERO,
        tickle_to_schedule_idle: Duration::ZERO,
        schedule: Duration::ZERO,
        context_switch: Duration::ZERO,
        cold_cache: Duration::ZERO,
    };
}
