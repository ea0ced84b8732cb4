//! Time-outs that were not needed: what was sent before is only late.

use lowtail_engine::Time;

/// What a time-out has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    /// When the first of what was taken for lost was sent again.
    pub(super) at: Time,
    /// The window before, and its threshold.
    pub(super) window: u64,
    pub(super) threshold: u64,
}
