//! What threads have experienced of a schedule, recorded or simulated: how long each waited and ran. Both are counted by the same rules.

use lowtail_engine::{Duration, Hist};

use crate::blame::Blame;

/// What a thread has experienced.
#[derive(Debug, Clone, Default)]
pub struct Experience {
    /// From waking to running.
    pub wakeup_latency: Hist,
    /// From being taken off its CPU to running again.
    pub preemption_latency: Hist,
    /// How long it has run, in nanoseconds.
    pub run_ns: u64,
    /// How often it began to run.
    pub runs: u64,
}

impl Experience {
    /// What both have experienced.
    pub fn merge(&mut self, other: &Experience) {
        self.wakeup_latency.merge(&other.wakeup_latency);
        self.preemption_latency.merge(&other.preemption_latency);
        self.run_ns += other.run_ns;
        self.runs += other.runs;
    }
}

/// What a thread does at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Not known yet.
    #[default]
    Unknown,
    Sleeps,
    /// It has been woken, then.
    Woken(u64),
    /// It was taken off its CPU, then.
    Preempted(u64),
    Runs(u64),
}

/// A span; a damaged recording has some that are too long to be one.
fn span(ns: u64) -> Duration {
    const MAX: Duration = Duration::from_s(1_000_000);
    Duration::from_ns(ns.min(MAX.as_ns()))
}

/// Follows threads by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    states: Vec<State>,
    pub(crate) experience: Vec<Experience>,
    /// Who ran while others waited, if that is counted.
    pub(crate) blame: Option<Blame>,
}

impl Schedule {
    /// One that counts who ran while others waited.
    pub(crate) fn with_blame() -> Self {
        Schedule { blame: Some(Blame::default()), ..Schedule::default() }
    }

    fn state(&mut self, thread: usize) -> &mut State {
        if thread >= self.states.len() {
            self.states.resize(thread + 1, State::Unknown);
            self.experience.resize_with(thread + 1, Experience::default);
        }
        &mut self.states[thread]
    }

    /// Whether it sleeps, as far as is known.
    pub(crate) fn may_wake(&mut self, thread: usize) -> bool {
        matches!(self.state(thread), State::Sleeps | State::Unknown)
    }

    /// It can run from now on.
    pub(crate) fn wakes(&mut self, now: u64, thread: usize) {
        if self.may_wake(thread) {
            *self.state(thread) = State::Woken(now);
        }
    }

    /// It runs on `cpu` from now on. How long it has waited since it was woken, if it was.
    pub(crate) fn runs(&mut self, now: u64, cpu: usize, thread: usize) -> Option<u64> {
        let before = std::mem::replace(self.state(thread), State::Runs(now));
        if let Some(blame) = &mut self.blame {
            let since = match before {
                State::Woken(at) | State::Preempted(at) => Some(at),
                _ => None,
            };
            blame.runs(now, cpu, thread, since);
        }
        let experience = &mut self.experience[thread];
        experience.runs += 1;
        match before {
            State::Woken(at) => {
                let wait = now.saturating_sub(at);
                experience.wakeup_latency.record(span(wait));
                Some(wait)
            }
            State::Preempted(at) => {
                let wait = now.saturating_sub(at);
                experience.preemption_latency.record(span(wait));
                None
            }
            _ => None,
        }
    }

    /// It leaves `cpu`, where another one may run already.
    pub(crate) fn leaves(&mut self, now: u64, cpu: usize, thread: usize, sleeps: bool) {
        if let Some(blame) = &mut self.blame {
            blame.leaves(now, cpu, thread);
        }
        self.is_lost(now, thread);
        *self.state(thread) = if sleeps { State::Sleeps } else { State::Preempted(now) };
    }

    /// Nothing is known of it from now on; it may have run up to here.
    pub(crate) fn is_lost(&mut self, now: u64, thread: usize) {
        if let State::Runs(since) = std::mem::take(self.state(thread)) {
            self.experience[thread].run_ns += now.saturating_sub(since);
        }
    }

    /// All ends.
    pub(crate) fn ends(&mut self, now: u64) {
        for thread in 0..self.states.len() {
            self.is_lost(now, thread);
        }
    }
}
