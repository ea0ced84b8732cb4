//! What is known of every vCPU while the records go by.

use crate::blame::{Decision, Waiter};
use crate::error::Error;
use crate::record::VcpuId;
use crate::tables::NumberMap;

/// The trace may name so many vCPUs, idle ones included. A damaged file could claim 2^32.
pub const VCPUS_MAX: usize = 16_384;

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
    pub(crate) id: VcpuId,
    pub(crate) state: State,
    /// A run state of it has been on record.
    pub(crate) seen: bool,
    /// The pCPUs it was seen to run on.
    pub(crate) seen_on: Vec<u16>,
    /// Its credit by the latest record that tells.
    pub(crate) credit: Option<i32>,
    /// It has a cap, and thereby a budget.
    pub(crate) capped: bool,
    /// It has blocked itself since it was switched in.
    pub(crate) blocking: bool,
    /// It has yielded since it was switched in.
    pub(crate) yielding: bool,
    /// What was decided about its wait.
    pub(crate) decision: Option<(Decision, u64)>,
    /// An idle pCPU has passed it over during its wait.
    pub(crate) passed_over: bool,
    /// pCPUs that lost records during its wait.
    pub(crate) doubt: Vec<u16>,
}

impl Vcpu {
    fn new(id: VcpuId) -> Self {
        Vcpu {
            id,
            state: State::Unknown,
            seen: false,
            seen_on: Vec::new(),
            credit: None,
            capped: false,
            blocking: false,
            yielding: false,
            decision: None,
            passed_over: false,
            doubt: Vec::new(),
        }
    }

    pub(crate) fn see_on(&mut self, pcpu: u16) {
        if !self.seen_on.contains(&pcpu) {
            self.seen_on.push(pcpu);
        }
    }

    pub(crate) fn waiter(&self) -> Waiter {
        let (credit, decision, passed_over) = (self.credit, self.decision, self.passed_over);
        Waiter { credit, decision, passed_over }
    }
}

/// The vCPUs, numbered in the order in which they appear.
#[derive(Debug, Default)]
pub(crate) struct Vcpus {
    all: Vec<Vcpu>,
    // Only ever asked for one key; its order decides nothing.
    numbers: NumberMap<usize>,
}

impl Vcpus {
    pub(crate) fn find(&self, id: VcpuId) -> Option<usize> {
        self.numbers.get(&id.packed()).copied()
    }

    pub(crate) fn find_or_add(&mut self, id: VcpuId, offset: u64) -> Result<usize, Error> {
        if let Some(number) = self.find(id) {
            return Ok(number);
        }
        if self.all.len() >= VCPUS_MAX {
            return Err(Error::VcpuLimit { offset, max: VCPUS_MAX });
        }
        self.all.push(Vcpu::new(id));
        self.numbers.insert(id.packed(), self.all.len() - 1);
        Ok(self.all.len() - 1)
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
