//! Two domains that wake each other in turn: each is always either fresh awake or asleep.
//!
//! The attack aims at what a wake-up is worth: a boost, a place at the head of the queue, a
//! tickle that interrupts whoever runs. Each of the two does a little work, sends the other
//! an interrupt, as over an event channel, and blocks. Neither ever runs for long, together
//! they never stop, and the neighbours pay with context switches. That VMs of one owner can act
//! together is a point of Zhou et al., "Scheduler vulnerabilities and coordinated attacks in
//! cloud computing", 2011.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least_1us;
use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::ids::Dom;

/// Parameters of a `wake-storm`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WakeStormConfig {
    /// The VM that it wakes: another `wake-storm` with as many vCPUs.
    pub partner: String,
    /// Work after each wake-up, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub work: Duration,
}

impl WakeStormConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        // Whether the partner plays is for the host to say, which knows all VMs.
        at_least_1us("work", self.work)
    }
}

/// Works, wakes the vCPU of the same number in its partner, blocks; on each of its vCPUs.
#[derive(Debug)]
pub struct WakeStorm {
    partner: Dom,
    work: Duration,
    working: Vec<bool>,
}

impl WakeStorm {
    /// Works for `work` each time that it is woken, then wakes `partner`, another domain with
    /// as many vCPUs.
    ///
    /// # Panics
    /// If `work` is zero.
    pub fn new(partner: Dom, work: Duration) -> Self {
        assert!(!work.is_zero(), "two that wake each other have to work in between");
        WakeStorm { partner, work, working: Vec::new() }
    }
}

impl Guest for WakeStorm {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.working = vec![false; cx.vcpus()];
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        // An interrupt that finds the partner awake is lost. None is needed then: whoever is
        // awake will send one back.
        self.working[vcpu] = !self.working[vcpu];
        if self.working[vcpu] {
            return Step::Compute(self.work);
        }
        cx.interrupt(vcpu, self.partner, vcpu);
        Step::Block
    }

    fn timer(&mut self, _cx: &mut GuestContext<'_>, _token: u32) {}
}
