//! When a pCPU last balanced, and with what success.

/// Levels at which load is balanced: among the pCPUs of a last-level cache, among the caches of a node, and among nodes (the domains MC,
/// PKG and NUMA of `kernel/sched/topology.c`). A level of which there is one is left out.
pub(super) const LEVELS: usize = 3;

/// When a pCPU last balanced within a domain, and with what success.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BalanceState {
    pub(super) last: u64,
    /// How much longer it waits than at least, a power of two.
    pub(super) relaxed: bool,
    pub(super) failed: u32,
}

impl BalanceState {
    /// One that looks for the first time at `last` plus its interval.
    pub(super) fn from(last: u64) -> Self {
        BalanceState { last, ..BalanceState::default() }
    }
}
