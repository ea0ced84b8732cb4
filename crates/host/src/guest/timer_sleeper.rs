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
    /// Work between a wake-up and the reading of the clock that says how late it was: a guest's own way through its interrupt and its
    /// scheduler. It comes before `work`.
    #[serde(default, deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub wake_work: Duration,
    /// Wake-ups now and then that have other work.
    pub long: Option<LongWork>,
    /// Wake-ups to measure.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub wakeups: u64,
    /// From when on a turn (sleep and wait) counts as late.
    #[serde(default = "ten_milliseconds", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub late_limit: Duration,
    /// From when on a wait by itself, without the sleep, counts as late; in place of `late_limit`.
    #[serde(default, deserialize_with = "field::optional_duration")]
    #[schemars(with = "Option<DurationText>")]
    pub late_wait_limit: Option<Duration>,
}

/// Every so many wake-ups of a `timer-sleeper` other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongWork {
    /// Of how many wake-ups the last one.
    #[schemars(range(min = 1))]
    pub every: u32,
    /// Its work, in place of the usual one.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub work: Duration,
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
    /// Sleeps that are measured, as many as `wakeups`, with what a scenario has where it says no more.
    pub fn new(sleep: Distribution, wakeups: u64) -> Self {
        TimerSleeperConfig {
            start: at_once(),
            sleep,
            work: one_microsecond(),
            wake_work: Duration::ZERO,
            long: None,
            wakeups,
            late_limit: ten_milliseconds(),
            late_wait_limit: None,
        }
    }

    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        count("wakeups", self.wakeups, 1)?;
        if self.long.is_some_and(|long| long.every == 0) {
            return Err(KeyError::new("every", "0: at least 1").under(&["long"]));
        }
        at_least_1us("sleep", self.sleep.mean())
    }
}

/// A single vCPU that sleeps over and over.
#[derive(Debug)]
pub struct TimerSleeper {
    config: TimerSleeperConfig,
    rng: Rng,
    due: Option<Time>,
    lateness: Hist,
    began: Time,
    late: u64,
    turns: u64,
    phase: Phase,
}

/// What a sleeper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asleep,
    /// On its way to the clock.
    Waking,
    Working,
}

impl TimerSleeper {
    /// Sleeps for `sleep`, then works for `work`, `wakeups` times; counts as late each
    /// turn in which `late_limit` or more passes from going to sleep to reading the clock, or each wait of `late_wait_limit`
    /// or more.
    pub fn new(config: TimerSleeperConfig, rng: Rng) -> Self {
        TimerSleeper {
            config,
            rng,
            due: None,
            lateness: Hist::new(),
            began: Time::ZERO,
            late: 0,
            turns: 0,
            phase: Phase::Asleep,
        }
    }

    /// Reads the clock and goes to work.
    fn awake(&mut self, now: Time) -> Step {
        let wait = self.due.map_or(Duration::ZERO, |due| now.since(due));
        self.turns += 1;
        if self.lateness.n() < self.config.wakeups {
            self.lateness.record(wait);
            let late = match self.config.late_wait_limit {
                Some(limit) => wait >= limit,
                None => now.since(self.began) >= self.config.late_limit,
            };
            self.late += u64::from(late);
        }
        self.phase = Phase::Working;
        match self.config.long {
            Some(long) if self.turns.is_multiple_of(long.every.into()) => Step::Compute(long.work),
            _ => Step::Compute(self.config.work),
        }
    }
}

impl Guest for TimerSleeper {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.began = cx.now();
        let first = self.config.start.draw(&mut self.rng);
        self.due = Some(cx.now() + first);
        if !first.is_zero() {
            cx.after(first, 0);
        }
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, _vcpu: usize) -> Step {
        let now = cx.now();
        match self.phase {
            Phase::Asleep => {
                if self.due.is_none_or(|due| due > now) {
                    return Step::Block;
                }
                if self.config.wake_work.is_zero() {
                    return self.awake(now);
                }
                self.phase = Phase::Waking;
                Step::Compute(self.config.wake_work)
            }
            Phase::Waking => self.awake(now),
            Phase::Working => {
                self.phase = Phase::Asleep;
                self.began = now;
                let sleep = self.config.sleep.draw(&mut self.rng);
                self.due = Some(now + sleep);
                cx.sleep(sleep, 0);
                Step::Block
            }
        }
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, _token: u32) {
        cx.notify(0, Origin::OwnProcessor);
    }

    fn done(&self) -> Option<bool> {
        Some(self.lateness.n() >= self.config.wakeups)
    }

    fn outcome(&self) -> Outcome {
        Outcome { latency: Some(self.lateness.clone()), counters: vec![("late", self.late)] }
    }
}
