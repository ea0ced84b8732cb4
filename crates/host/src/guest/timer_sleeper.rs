//! Sleeps, wakes, notes how late it is, sleeps again: `cyclictest` in small, and the
//! probe of Bobtail (Xu et al., NSDI'13: sleep 1 ms, count wake-ups of 10 ms or more).

use lowtail_config_text::{DistributionText, DurationText, KeyError, field};
use lowtail_engine::{Distribution, Duration, Hist, Rng, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{at_least_1us, count};
use super::context::GuestContext;
use super::model::{Guest, Outcome, Step};
use crate::notification::Origin;

/// Parameters of a `timer-sleeper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimerSleeperConfig {
    /// When the first wake-up is due, so that what starts together is not in step; default: at once.
    #[serde(default = "at_once", deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub start: Distribution,
    /// How long to sleep.
    #[serde(deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub sleep: Distribution,
    /// Work after each wake-up.
    #[serde(default = "one_microsecond", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub work: Duration,
    /// Wake-ups to measure.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub wakeups: u64,
    /// From when on a turn (sleep and wait) counts as late.
    #[serde(default = "ten_milliseconds", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub late_limit: Duration,
}

fn at_once() -> Distribution {
    Distribution::ZERO
}

fn one_microsecond() -> Duration {
    Duration::from_us(1)
}

fn ten_milliseconds() -> Duration {
    Duration::from_ms(10)
}

impl TimerSleeperConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        count("wakeups", self.wakeups, 1)?;
        at_least_1us("sleep", self.sleep.mean())
    }
}

/// A single vCPU that sleeps over and over.
#[derive(Debug)]
pub struct TimerSleeper {
    start: Distribution,
    sleep: Distribution,
    work: Duration,
    wakeups: u64,
    late_limit: Duration,
    rng: Rng,
    due: Option<Time>,
    lateness: Hist,
    began: Time,
    late: u64,
    working: bool,
}

impl TimerSleeper {
    /// Sleeps for `sleep`, then works for `work`, `wakeups` times; counts as late each
    /// turn in which `late_limit` or more passes from going to sleep to running again.
    pub fn new(config: TimerSleeperConfig, rng: Rng) -> Self {
        let TimerSleeperConfig { start, sleep, work, wakeups, late_limit } = config;
        TimerSleeper {
            start,
            sleep,
            work,
            wakeups,
            late_limit,
            rng,
            due: None,
            lateness: Hist::new(),
            began: Time::ZERO,
            late: 0,
            working: false,
        }
    }
}

impl Guest for TimerSleeper {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.began = cx.now();
        let first = self.start.draw(&mut self.rng);
        self.due = Some(cx.now() + first);
        if !first.is_zero() {
            cx.after(first, 0);
        }
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, _vcpu: usize) -> Step {
        let now = cx.now();
        if !self.working {
            let Some(due) = self.due.filter(|&due| due <= now) else { return Step::Block };
            if self.lateness.n() < self.wakeups {
                self.lateness.record(now.since(due));
                self.late += u64::from(now.since(self.began) >= self.late_limit);
            }
            self.working = true;
            return Step::Compute(self.work);
        }
        self.working = false;
        self.began = now;
        let sleep = self.sleep.draw(&mut self.rng);
        self.due = Some(now + sleep);
        cx.after(sleep, 0);
        Step::Block
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, _token: u32) {
        cx.notify(0, Origin::OwnProcessor);
    }

    fn done(&self) -> Option<bool> {
        Some(self.lateness.n() >= self.wakeups)
    }

    fn outcome(&self) -> Outcome {
        Outcome { latency: Some(self.lateness.clone()), counters: vec![("late", self.late)] }
    }
}
