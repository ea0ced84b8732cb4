//! The clock that events move, for both queues.

use crate::time::Time;

/// Now, and how many events have happened. It never goes back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    now: Time,
    events: u64,
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Events that have happened.
    #[inline]
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Refuses to schedule an event in the past.
    ///
    /// # Panics
    /// If `time` is past.
    #[inline]
    pub(crate) fn check(&self, time: Time) {
        assert!(time >= self.now, "event in the past: {time:?} at {:?}", self.now);
    }

    /// An event happens at `time`.
    #[inline]
    pub(crate) fn event_at(&mut self, time: Time) {
        self.now = time;
        self.events += 1;
    }

    /// Something outside the queue has come to `time`; the queue's next event is at `next`.
    #[inline]
    pub(crate) fn advance_to(
        &mut self,
        time: Time,
        next: Option<Time>,
    ) -> Result<(), AdvanceError> {
        if time < self.now {
            return Err(AdvanceError::Past(self.now));
        }
        match next {
            Some(next) if next < time => Err(AdvanceError::BehindEvent(next)),
            _ => {
                self.now = time;
                Ok(())
            }
        }
    }
}

/// Why a clock cannot be moved to a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvanceError {
    /// It is this late already.
    Past(Time),
    /// An event is still to come before it.
    BehindEvent(Time),
}
