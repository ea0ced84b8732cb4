//! What a sender waits for.

use lowtail_engine::Time;

/// What a timer has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Nothing is due; ask again then (`NEVER`: not at all).
    Later(Time),
    /// Something may be sent now.
    Send,
}

/// What the deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// The time-out.
    TimeOut,
    /// A probe of the tail.
    Probe,
    /// Whether a gap is filled after all.
    Gap,
    /// Room in the own host's queue, which has refused all.
    Room,
}
