//! A VM, what was measured of it, and how it keeps its goal.

use std::time::{Duration, Instant};

use super::figure::{Verdict, merged};
use super::memory::{GoalState, State};
use super::{Base, Breach, Machine};
use lowtail_kernel::VmSample;

/// Samples in a row in which a goal is broken, or kept again.
pub(super) const IN_A_ROW: u32 = 2;
/// Samples that are kept of a VM at most.
pub(super) const SAMPLES: usize = 10;
/// A load that has changed is not tried again for so long; twice as long each time.
const PAUSE: Duration = Duration::from_secs(60);
pub(super) const PAUSE_MOST: Duration = Duration::from_secs(3600);

/// A VM that is watched.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) machine: Machine,
    pub(super) base: Option<Base>,
    /// Since the last change, the newest last.
    pub(super) recent: Vec<VmSample>,
    pub(super) verdict: Verdict,
    /// Samples in a row in which a goal was broken.
    pub(super) bad: u32,
    /// A trial has shown that its load has changed: no other one until then.
    pub(super) quiet: Option<Instant>,
    pub(super) pause: Duration,
    /// It was told that its goal is missed.
    pub(super) told: bool,
}

impl Watched {
    pub(super) fn new(machine: Machine) -> Self {
        Watched {
            machine,
            base: None,
            recent: Vec::new(),
            verdict: Verdict::Unknown,
            bad: 0,
            quiet: None,
            pause: PAUSE,
            told: false,
        }
    }

    pub(super) fn push(&mut self, sample: VmSample) {
        if self.recent.len() == SAMPLES {
            self.recent.remove(0);
        }
        self.recent.push(sample);
    }

    pub(super) fn judge(&mut self) {
        self.verdict = self.machine.judge(self.base.as_ref(), &self.recent, None);
        match self.verdict {
            Verdict::Unknown => {}
            Verdict::Good => self.bad = 0,
            Verdict::Bad(_) => self.bad += 1,
        }
    }

    /// Its goal is broken, and not by chance.
    pub(super) fn broken(&self) -> Option<Breach> {
        match &self.verdict {
            Verdict::Bad(breach) if self.bad >= IN_A_ROW || breach.severe => Some(breach.clone()),
            _ => None,
        }
    }

    pub(super) fn merged(&self) -> Option<VmSample> {
        merged(&self.recent)
    }

    pub(super) fn recent_base(&self) -> Option<Base> {
        self.merged().map(|sample| Base::of(&sample))
    }

    /// Whether there is something that it can miss.
    pub(super) fn has_goal(&self) -> bool {
        let cpus = || self.base.as_ref().is_some_and(Base::has_cpus) && self.machine.by_default;
        self.machine.goal.is_some()
            || self.machine.p99_limit(self.base.as_ref()).is_some()
            || cpus()
    }

    pub(super) fn state(&self, reverted: bool, waits: bool) -> GoalState {
        let goal = self.machine.goal.unwrap_or_default();
        let seconds = |ns: f64| ns / 1e9;
        let merged = self.merged();
        let p99 = merged.as_ref().and_then(|sample| sample.wakes.percentile_us(0.99));
        let measured_ns = p99.map(|us| us * 1e3);
        let limit = self.machine.p99_limit(self.base.as_ref());
        let is_missed =
            goal.p99.zip(measured_ns).is_some_and(|(goal, ns)| ns > goal.as_ns() as f64);
        let state = match (&self.verdict, reverted) {
            (_, true) => State::Reverted,
            _ if waits => State::Waiting,
            (Verdict::Bad(_), _) if self.bad >= IN_A_ROW => State::Broken,
            _ if is_missed => State::Missed,
            (Verdict::Unknown, _) => State::Unknown,
            _ => State::Kept,
        };
        GoalState {
            vm: self.machine.name.as_given().to_string(),
            pid: self.machine.id.0,
            goal_p99_seconds: goal.p99.map(|span| seconds(span.as_ns() as f64)),
            limit_p99_seconds: limit.map(|limit| seconds(limit.ns)),
            before_p99_seconds: self.base.as_ref().and_then(|base| base.p99_ns).map(seconds),
            predicted_p99_seconds: None,
            measured_p99_seconds: measured_ns.map(seconds),
            state,
            reason: match &self.verdict {
                Verdict::Bad(breach) if state == State::Broken => Some(breach.to_string()),
                _ => None,
            },
        }
    }
}
