//! A neighbour that computes for part of the time: busy, asleep, busy, asleep.
//!
//! Each burst is an amount of processor *work*; the sleep that follows has a fixed
//! length. Alone on a pCPU the hog is busy for the given share of each period; with
//! company its bursts take longer and the share that it asks for falls, as it does for
//! a real program that sleeps between chunks of work.

use lowtail_config_text::KeyError;
use lowtail_engine::{Duration, Rng};

use super::check::at_least_1us;
use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::notification::Origin;
use lowtail_engine::Distribution;

/// Where a vCPU of the hog is in its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asleep,
    Awake,
    Working,
}

/// Parameters of a [`DutyHog`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DutyHogConfig {
    /// Length of a burst of work.
    pub burst: Distribution,
    /// Busy share when alone, 1 to 100.
    pub busy_percent: u64,
}

impl DutyHogConfig {
    /// Refuses bursts that take too long to simulate, and shares that are none.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        Self::check_busy_percent(self.busy_percent)?;
        at_least_1us("burst", self.burst.mean())
    }

    /// Refuses a busy share that is none.
    ///
    /// # Errors
    /// What would be right.
    pub fn check_busy_percent(percent: u64) -> Result<(), KeyError> {
        if (1..=100).contains(&percent) {
            return Ok(());
        }
        Err(KeyError::new("busy_percent", format!("busy share {percent} %: 1 to 100")))
    }
}

/// Bursts of work with sleeps between them, each vCPU for itself.
#[derive(Debug)]
pub struct DutyHog {
    burst: Distribution,
    sleep: Duration,
    rng: Rng,
    phases: Vec<Phase>,
}

impl DutyHog {
    /// Works for `burst`, then sleeps so that it is busy for `busy_percent` of the time
    /// on average when it has a pCPU to itself. At 100 it never sleeps.
    ///
    /// # Panics
    /// If `busy_percent` is not within 1 to 100.
    pub fn new(config: DutyHogConfig, rng: Rng) -> Self {
        let DutyHogConfig { burst, busy_percent } = config;
        assert!((1..=100).contains(&busy_percent), "busy share {busy_percent} %");
        let sleep = burst.mean().mul_div(100 - busy_percent, busy_percent);
        DutyHog { burst, sleep, rng, phases: Vec::new() }
    }
}

impl Guest for DutyHog {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.phases = vec![Phase::Asleep; cx.vcpus()];
        // Hogs that start together would stay in step for a while; a random first sleep
        // spreads them over a period.
        for vcpu in 0..cx.vcpus() {
            let delay = self.rng.uniform(Duration::ZERO, self.sleep + self.burst.mean());
            cx.after(delay, vcpu as u32);
        }
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        match self.phases[vcpu] {
            Phase::Asleep => Step::Block,
            _ if self.sleep.is_zero() => Step::Compute(Duration::MAX),
            Phase::Awake => {
                self.phases[vcpu] = Phase::Working;
                Step::Compute(self.burst.draw(&mut self.rng))
            }
            Phase::Working => {
                self.phases[vcpu] = Phase::Asleep;
                cx.after(self.sleep, vcpu as u32);
                Step::Block
            }
        }
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        self.phases[token as usize] = Phase::Awake;
        cx.notify(token as usize, Origin::OwnProcessor);
    }
}
