//! The order of events, for both queues: by time, then by sequence number.

use std::cmp::Ordering;

use crate::time::Time;

/// Where an event stands among others: its time, and of equal times the lower number first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventKey {
    number: u64,
    ps: u64,
}

impl EventKey {
    #[inline]
    pub(crate) fn new(time: Time, number: u64) -> Self {
        EventKey { number, ps: time.as_ps() }
    }

    #[inline]
    pub(crate) fn time(self) -> Time {
        Time::from_ps(self.ps)
    }

    /// The sequence number, with whatever the queue keeps below it.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.number
    }

    /// One integer, so that one comparison orders by time and number.
    #[inline]
    fn order(self) -> u128 {
        u128::from(self.ps) << 64 | u128::from(self.number)
    }
}

impl PartialOrd for EventKey {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.order() < other.order()
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.order() <= other.order()
    }
}

impl Ord for EventKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// Numbers events in the order in which they are scheduled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequence {
    next: u64,
}

impl Sequence {
    /// The next number, which is below `end`.
    ///
    /// # Panics
    /// If it is not.
    #[inline]
    pub(crate) fn take(&mut self, end: u64) -> u64 {
        assert!(self.next < end, "sequence numbers used up");
        self.next += 1;
        self.next - 1
    }
}
