//! Asleep until shortly before the host's accounting, then busy until just behind it.
//!
//! The attack aims at schedulers that hand out processor time at the edge of a period, by
//! what they see there: credit shares its credits every 30 ms among the vCPUs that are
//! active then. Who comes just before the edge looks like one that has asked for next to
//! nothing, is placed before those who have worked, and is served a second time from the
//! new period's share.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least;
use super::context::GuestContext;
use super::model::{Guest, Step};
use super::windows::{Window, Windows, compute_for};
use crate::notification::Origin;

/// Parameters of an `edge-burner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EdgeBurnerConfig {
    /// From one edge of the host's accounting to the next; they come at multiples of this.
    #[serde(default = "thirty_milliseconds", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub period: Duration,
    /// How long before an edge it begins, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub before: Duration,
    /// How long behind an edge it stops.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub after: Duration,
}

fn thirty_milliseconds() -> Duration {
    Duration::from_ms(30)
}

impl EdgeBurnerConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        let EdgeBurnerConfig { period, before, after } = *self;
        at_least("period", period, Duration::from_us(100))?;
        at_least("before", before, Duration::from_us(1))?;
        if before + after >= period {
            let message = format!("before {before} and after {after}: all of {period}");
            return Err(KeyError::new("before", message));
        }
        Ok(())
    }
}

/// Computes across each multiple of a period and sleeps in between, on all its vCPUs.
#[derive(Debug)]
pub struct EdgeBurner {
    windows: Windows,
}

impl EdgeBurner {
    /// Computes from `before` ahead of each multiple of `period` to `after` behind it.
    ///
    /// # Panics
    /// If `before` is zero, or the two take up all of the period.
    pub fn new(config: EdgeBurnerConfig) -> Self {
        let EdgeBurnerConfig { period, before, after } = config;
        assert!(!before.is_zero() && before + after < period, "no edge to burn across");
        EdgeBurner { windows: Windows::new(period, period - before, before + after) }
    }
}

impl Guest for EdgeBurner {
    fn start(&mut self, _cx: &mut GuestContext<'_>) {}

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        match self.windows.at(cx.now()) {
            Window::Open(left) => compute_for(left),
            Window::OpensAt(time) => {
                cx.at(time, vcpu as u32);
                Step::Block
            }
        }
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        cx.notify(token as usize, Origin::OwnProcessor);
    }
}
