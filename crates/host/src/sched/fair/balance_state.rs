//! When a pCPU last balanced, and with what success.

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
