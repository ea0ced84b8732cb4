//! What is known of every vCPU while the records go by. On a Linux host each thread is one: threads wait for CPUs as
//! vCPUs do, and the vCPUs of its machines are threads.

use crate::blame::{Decision, Waiter};
use crate::linux::ThreadInfo;
use crate::tables::NumberMap;

/// The trace may name so many vCPUs, idle ones included. A damaged file could claim 2^32.
pub const VCPUS_MAX: usize = 16_384;

/// What a vCPU is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// For people; fit for a terminal.
    pub(crate) name: String,
    /// The idle vCPU, which runs when no other one wants the pCPU.
    pub(crate) idle: bool,
    /// Its place in the order of tables: by VM, by role, by number.
    pub(crate) rank: (u32, u32, u32),
    /// If it is a thread of a Linux host.
    pub(crate) thread: Option<Box<ThreadInfo>>,
}

/// How a vCPU came to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was blocked and woke up.
    Wake,
    /// It had blocked itself and was woken while it was being switched out, so that its run
    /// state never was *blocked*.
    RacedWake,
    /// It was taken off its pCPU.
    Preempted,
    /// It gave up its pCPU without blocking.
    Yielded,
    /// It was paused and no longer is.
    Unpaused,
}

/// What a vCPU does, and since when (in ticks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not seen yet, or lost sight of.
    Unknown,
    /// Runs. `whole` if the beginning was seen, that is, if the run's length will be known.
    Running { pcpu: u16, since: u64, whole: bool },
    /// Waits for a pCPU.
    Waiting { since: u64, origin: Origin },
    /// Blocked, or paused.
    Resting { since: u64, paused: bool },
}

/// A vCPU.
#[derive(Debug)]
pub(crate) struct Vcpu {
    pub(crate) label: Label,
    pub(crate) state: State,
    /// A run state of it has been on record.
    pub(crate) seen: bool,
    /// The pCPUs it was seen to run on.
    pub(crate) seen_on: Vec<u16>,
    /// Its credit by the latest record that tells.
    pub(crate) credit: Option<i32>,
    /// It has a cap, and thereby a budget.
    pub(crate) capped: bool,
    /// It has credit's priority BOOST, as far as is on record.
    pub(crate) boosted: bool,
    /// It has blocked itself since it was switched in.
    pub(crate) blocking: bool,
    /// It has yielded since it was switched in.
    pub(crate) yielding: bool,
    /// What was decided about its wait.
    pub(crate) decision: Option<(Decision, u64)>,
    /// An idle pCPU has passed it over during its wait.
    pub(crate) passed_over: bool,
    /// The pCPU in whose queue it waits, where the trace tells.
    pub(crate) queued_on: Option<u16>,
    /// pCPUs that lost records during its wait.
    pub(crate) maybe_lost: Vec<u16>,
}

impl Vcpu {
    fn new(label: Label) -> Self {
        Vcpu {
            label,
            state: State::Unknown,
            seen: false,
            seen_on: Vec::new(),
            credit: None,
            capped: false,
            boosted: false,
            blocking: false,
            yielding: false,
            decision: None,
            passed_over: false,
            queued_on: None,
            maybe_lost: Vec::new(),
        }
    }

    /// Remembers that it ran on `pcpu`.
    pub(crate) fn note_pcpu(&mut self, pcpu: u16) {
        if !self.seen_on.contains(&pcpu) {
            self.seen_on.push(pcpu);
        }
    }

    pub(crate) fn waiter(&self) -> Waiter {
        let (credit, decision, passed_over) = (self.credit, self.decision, self.passed_over);
        let (boosted, queued_on) = (self.boosted, self.queued_on);
        Waiter { credit, boosted, decision, passed_over, queued_on }
    }
}

/// There are as many as there may be.
#[derive(Debug)]
pub(crate) struct TooMany;

/// The vCPUs, numbered in the order in which they appear.
#[derive(Debug, Default)]
pub(crate) struct Vcpus {
    all: Vec<Vcpu>,
    // Only ever asked for one key; its order decides nothing.
    numbers: NumberMap<usize>,
}

impl Vcpus {
    /// The one that goes by `key` in the trace.
    pub(crate) fn find(&self, key: u32) -> Option<usize> {
        self.numbers.get(&key).copied()
    }

    /// Another one, from now on by `key`. There may be `max` of them.
    pub(crate) fn add(&mut self, key: u32, label: Label, max: usize) -> Result<usize, TooMany> {
        if self.all.len() >= max {
            return Err(TooMany);
        }
        self.all.push(Vcpu::new(label));
        self.numbers.insert(key, self.all.len() - 1);
        Ok(self.all.len() - 1)
    }

    /// Whoever went by `key` has gone; the next one of that key is another.
    pub(crate) fn forget(&mut self, key: u32) {
        self.numbers.remove(&key);
    }

    pub(crate) fn get(&self, number: usize) -> &Vcpu {
        &self.all[number]
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut Vcpu {
        &mut self.all[number]
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
