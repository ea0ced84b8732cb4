//! A neighbour that computes for part of the time: busy, asleep, busy, asleep.
//!
//! Each burst is an amount of processor *work*; a sleep follows. Alone on a pCPU the
//! hog is busy for the given share of each period; with company its bursts take longer
//! and the share that it asks for falls, as it does for a real program that sleeps
//! between chunks of work.

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
    /// How long it sleeps after each; with a mean of nothing it computes for ever.
    pub sleep: Distribution,
    /// How long each vCPU sleeps first; `None`: a random part of a burst and a sleep.
    pub start: Option<Distribution>,
}

impl DutyHogConfig {
    /// Works for `burst`, then sleeps, always equally long, so that it is busy for `percent` of the time on average when it has
    /// a pCPU to itself. At 100 it never sleeps.
    ///
    /// # Panics
    /// If `percent` is not within 1 to 100.
    pub fn busy(burst: Distribution, percent: u64) -> Self {
        assert!((1..=100).contains(&percent), "busy share {percent} %");
        let sleep = Distribution::Fixed(burst.mean().mul_div(100 - percent, percent));
        DutyHogConfig { burst, sleep, start: None }
    }

    /// Its busy share in percent, on average when it has a pCPU to itself.
    pub fn busy_percent(&self) -> f64 {
        let (burst, sleep) = (self.burst.mean().as_ns() as f64, self.sleep.mean().as_ns() as f64);
        100.0 * burst / (burst + sleep)
    }

    /// Refuses bursts that take too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
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
    config: DutyHogConfig,
    rng: Rng,
    phases: Vec<Phase>,
}

impl DutyHog {
    /// As `config` says.
    pub fn new(config: DutyHogConfig, rng: Rng) -> Self {
        DutyHog { config, rng, phases: Vec::new() }
    }
}

impl Guest for DutyHog {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.phases = vec![Phase::Asleep; cx.vcpus()];
        // Hogs that start together would stay in step for a while; a random first sleep
        // spreads them over a period.
        let period = self.config.sleep.mean() + self.config.burst.mean();
        let start = self.config.start.unwrap_or(Distribution::Uniform(Duration::ZERO, period));
        for vcpu in 0..cx.vcpus() {
            let delay = start.draw(&mut self.rng);
            cx.after(delay, vcpu as u32);
        }
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        match self.phases[vcpu] {
            Phase::Asleep => Step::Block,
            _ if self.config.sleep.mean().is_zero() => Step::Compute(Duration::MAX),
            Phase::Awake => {
                self.phases[vcpu] = Phase::Working;
                Step::Compute(self.config.burst.draw(&mut self.rng))
            }
            Phase::Working => {
                self.phases[vcpu] = Phase::Asleep;
                let sleep = self.config.sleep.draw(&mut self.rng);
                cx.sleep(sleep, vcpu as u32);
                Step::Block
            }
        }
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        self.phases[token as usize] = Phase::Awake;
        cx.notify(token as usize, Origin::OwnProcessor);
    }
}
