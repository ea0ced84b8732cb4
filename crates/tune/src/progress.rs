//! How far a search has come.

/// How far a search has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Runs that were simulated.
    pub done: u64,
    /// About how many there will be.
    pub total: u64,
}
