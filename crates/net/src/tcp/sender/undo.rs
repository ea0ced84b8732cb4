//! Time-outs that were not needed: what was sent before is only late.

use lowtail_engine::Time;

use super::{Sender, State};

/// What a time-out has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    /// When the first of what was taken for lost was sent again.
    at: Time,
    /// The window before, and its threshold.
    window: u64,
    threshold: u64,
}

impl Sender {
    /// Keeps what a time-out is about to change.
    pub(super) fn keep_for_undo(&mut self, now: Time) {
        let (window, threshold) = (self.congestion.window, self.congestion.threshold);
        self.undo = Some(Undo { at: now, window, threshold });
    }

    /// Bytes have been acknowledged by a segment that was sent at `echo`, as its time stamp says. If that is before all that was sent
    /// again since a time-out, nothing was lost: what is under way is waited for, with the window as it was (the Eifel detection of
    /// RFC 3522; Linux `tcp_try_undo_loss`, `tcp_packet_delayed`).
    pub(super) fn try_undo(&mut self, echo: Time) {
        let Some(undo) = self.undo.filter(|undo| self.state == State::Loss && echo < undo.at)
        else {
            return;
        };
        self.undo = None;
        self.state = State::Open;
        self.congestion.window = self.congestion.window.max(undo.window);
        self.congestion.threshold = self.congestion.threshold.max(undo.threshold);
        self.lost_to = self.sacked.overtaken(super::OVERTAKEN_BYTES).unwrap_or(0);
        self.again_to = self.una;
        self.forget_resent();
    }
}
