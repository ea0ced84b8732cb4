//! Sleeps to look harmless, then spends at one go what it has been given meanwhile.
//!
//! The attack aims at schedulers that reward sleep: by credit that goes on growing, by a
//! boost for whoever wakes, or by placing a waker before all who have run. The long burst
//! then goes before the neighbours' work, and the longer the sleep counts, the longer the
//! neighbours wait at a time, although the attacker's share over minutes may be fair.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least_1us;
use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::notification::Origin;

/// Where a vCPU is in its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Saving,
    Rested,
    Burning,
}

/// Parameters of a `boost-saver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoostSaverConfig {
    /// How long it sleeps.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub save: Duration,
    /// Work after each sleep, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub burn: Duration,
}

impl BoostSaverConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        at_least_1us("burn", self.burn)
    }
}

/// Sleeps for a fixed time, computes for a fixed amount, over and over on all its vCPUs.
#[derive(Debug)]
pub struct BoostSaver {
    save: Duration,
    burn: Duration,
    phases: Vec<Phase>,
}

impl BoostSaver {
    /// Sleeps for `save`, then works for `burn`.
    ///
    /// # Panics
    /// If `burn` is zero.
    pub fn new(config: BoostSaverConfig) -> Self {
        let BoostSaverConfig { save, burn } = config;
        assert!(!burn.is_zero(), "nothing to burn");
        BoostSaver { save, burn, phases: Vec::new() }
    }
}

impl Guest for BoostSaver {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.phases = vec![Phase::Saving; cx.vcpus()];
        for vcpu in 0..cx.vcpus() {
            cx.after(self.save, vcpu as u32);
        }
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        match self.phases[vcpu] {
            Phase::Saving => Step::Block,
            Phase::Rested => {
                self.phases[vcpu] = Phase::Burning;
                Step::Compute(self.burn)
            }
            Phase::Burning => {
                self.phases[vcpu] = Phase::Saving;
                cx.after(self.save, vcpu as u32);
                Step::Block
            }
        }
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        self.phases[token as usize] = Phase::Rested;
        cx.notify(token as usize, Origin::OwnProcessor);
    }
}
