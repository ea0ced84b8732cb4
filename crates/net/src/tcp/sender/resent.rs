//! What was sent again.

use lowtail_engine::Time;

/// A segment that was sent again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resent {
    pub(super) seq: u64,
    pub(super) end: u64,
    pub(super) sent: Time,
}
