//! Computes between the ticks of the host and is never there when one comes.
//!
//! The attack aims at schedulers that sample: a host that charges whoever its tick finds on
//! the pCPU charges a guest nothing that leaves the pCPU just before each tick. Under credit
//! as it was in 2007 such a guest takes 95 % of a pCPU and stays in good standing, while the
//! loop beside it is charged for all (Zhou et al., "Scheduler vulnerabilities and
//! coordinated attacks in cloud computing", 2011; described also in the message of Xen commit
//! 78c9b2a64b, 2009, which charges run time as it is used). Since then it aims at what else a
//! tick does: credit finds out by its tick who is active, and takes a boost away.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least;
use super::context::GuestContext;
use super::model::{Guest, Step};
use super::windows::{Window, Windows, compute_for};
use crate::notification::Origin;

/// How a `tick-dodger` leaves the pCPU before a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GiveUp {
    /// Sleeps until the tick is over.
    #[default]
    Sleep,
    /// Yields once, and goes on when it has the pCPU again. If nobody else wants the pCPU the
    /// tick finds it there.
    Yield,
}

/// Parameters of a `tick-dodger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TickDodgerConfig {
    /// From one tick of the host to the next; they come at multiples of this.
    #[serde(default = "ten_milliseconds", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub tick: Duration,
    /// How long before a tick it leaves the pCPU.
    #[serde(default = "half_a_millisecond", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub margin: Duration,
    /// How long after a tick it wants the pCPU back.
    #[serde(default = "fifty_microseconds", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub after: Duration,
    /// How it leaves.
    #[serde(default)]
    pub give_up: GiveUp,
}

fn ten_milliseconds() -> Duration {
    Duration::from_ms(10)
}

fn half_a_millisecond() -> Duration {
    Duration::from_us(500)
}

fn fifty_microseconds() -> Duration {
    Duration::from_us(50)
}

impl TickDodgerConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        let TickDodgerConfig { tick, margin, after, .. } = *self;
        at_least("tick", tick, Duration::from_us(100))?;
        at_least("margin", margin, Duration::from_us(1))?;
        if margin + after >= tick {
            let message = format!("margin {margin} and after {after}: nothing is left of {tick}");
            return Err(KeyError::new("margin", message));
        }
        Ok(())
    }
}

/// Computes from just after each tick until shortly before the next, on all its vCPUs.
#[derive(Debug)]
pub struct TickDodger {
    config: TickDodgerConfig,
    windows: Windows,
    /// Whether the vCPU has computed since it last left: what is owed to the yield.
    worked: Vec<bool>,
}

impl TickDodger {
    /// Dodges the ticks described by `config`.
    ///
    /// # Panics
    /// If `margin` and `after` leave nothing of a tick, or are both zero.
    pub fn new(config: TickDodgerConfig) -> Self {
        let TickDodgerConfig { tick, margin, after, .. } = config;
        assert!(margin + after < tick, "nothing left of a tick of {tick}");
        let windows = Windows::new(tick, after, tick - margin - after);
        TickDodger { config, windows, worked: Vec::new() }
    }
}

impl Guest for TickDodger {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.worked = vec![false; cx.vcpus()];
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        match (self.windows.at(cx.now()), self.config.give_up) {
            (Window::Open(left), _) => {
                self.worked[vcpu] = true;
                compute_for(left)
            }
            (Window::OpensAt(time), GiveUp::Sleep) => {
                cx.at(time, vcpu as u32);
                Step::Block
            }
            (Window::OpensAt(_), GiveUp::Yield) if std::mem::take(&mut self.worked[vcpu]) => {
                Step::Yield
            }
            // It has yielded and has the pCPU already: works on, and looks at the clock when
            // the tick is over.
            (Window::OpensAt(time), GiveUp::Yield) => compute_for(time.since(cx.now())),
        }
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        cx.notify(token as usize, Origin::OwnProcessor);
    }
}
