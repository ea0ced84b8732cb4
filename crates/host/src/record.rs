//! A recording of the schedule: who ran where, who woke when, and why someone waited.
//!
//! Records are 16 bytes in a ring of fixed size, so that recording costs a store per
//! switch and the last moments before something remarkable can always be looked at.

use lowtail_engine::Time;

use crate::ids::{Pcpu, Vcpu};

/// A scheduler's remark on a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The pCPU's current vCPU goes on because it has run for less than the rate limit.
    RateLimited,
    /// A wake-up found no pCPU that may be interrupted, and tickled none.
    NotTickled,
    /// The vCPU was boosted.
    Boosted,
    /// The vCPU lost its boost.
    BoostEnded,
    /// The vCPU has used up its cap and waits for more.
    Parked,
    /// All credits of a run queue were topped up.
    CreditReset,
    /// The vCPU was moved from another pCPU's queue.
    Stolen,
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The vCPU was given the pCPU.
    Run,
    /// The vCPU left the pCPU because it blocked.
    Block,
    /// The vCPU left the pCPU though it could have gone on.
    Preempt,
    /// The vCPU became runnable.
    Wake,
    /// The scheduler remarked something.
    Note(Note),
}

/// One entry of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub time: Time,
    /// Where; for [`What::Wake`] the pCPU that the vCPU belongs to.
    pub pcpu: Pcpu,
    /// Who.
    pub vcpu: Vcpu,
    /// What.
    pub what: What,
}

/// Keeps the last records, or none.
#[derive(Debug, Default)]
pub struct Recorder {
    ring: Vec<Record>,
    next: usize,
    capacity: usize,
    dropped: u64,
}

impl Recorder {
    /// Keeps the last `capacity` records; zero keeps nothing and costs next to nothing.
    pub fn new(capacity: usize) -> Self {
        Recorder { ring: Vec::with_capacity(capacity), next: 0, capacity, dropped: 0 }
    }

    /// Adds a record; the oldest makes room if need be.
    #[inline]
    pub fn push(&mut self, time: Time, pcpu: Pcpu, vcpu: Vcpu, what: What) {
        if self.capacity == 0 {
            return;
        }
        let record = Record { time, pcpu, vcpu, what };
        if self.ring.len() < self.capacity {
            self.ring.push(record);
        } else {
            self.ring[self.next] = record;
            self.next = (self.next + 1) % self.capacity;
            self.dropped += 1;
        }
    }

    /// Adds a scheduler's remark.
    #[inline]
    pub fn note(&mut self, time: Time, pcpu: Pcpu, vcpu: Vcpu, note: Note) {
        self.push(time, pcpu, vcpu, What::Note(note));
    }

    /// The records kept, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.ring[self.next..].iter().chain(&self.ring[..self.next])
    }

    /// Hands the records kept to `each`, oldest first, and keeps none of them.
    pub fn drain(&mut self, mut each: impl FnMut(&Record)) {
        self.iter().for_each(&mut each);
        self.ring.clear();
        self.next = 0;
    }

    /// How many records had to make room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

const _: () = assert!(size_of::<Record>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_in_order() {
        let mut recorder = Recorder::new(3);
        for n in 0..5 {
            recorder.push(Time::from_ps(n), Pcpu(0), Vcpu(0), What::Run);
        }
        let times: Vec<u64> = recorder.iter().map(|r| r.time.as_ps()).collect();
        assert_eq!((times, recorder.dropped()), (vec![2, 3, 4], 2));
        let mut drained = Vec::new();
        recorder.drain(|r| drained.push(r.time.as_ps()));
        recorder.push(Time::from_ps(9), Pcpu(0), Vcpu(0), What::Run);
        recorder.drain(|r| drained.push(r.time.as_ps()));
        assert_eq!((drained, recorder.dropped()), (vec![2, 3, 4, 9], 2));
        let mut none = Recorder::new(0);
        none.push(Time::ZERO, Pcpu(0), Vcpu(0), What::Run);
        assert_eq!(none.iter().count(), 0);
    }
}
