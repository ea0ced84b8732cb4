//! Computes a little, yields, computes a little: a guest that spins on a lock politely.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least_1us;
use super::context::GuestContext;
use super::model::{Guest, Outcome, Step};

/// Parameters of a `yielder`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct YielderConfig {
    /// Work between yields, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub work: Duration,
}

impl YielderConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        at_least_1us("work", self.work)
    }
}

/// Yields after each piece of work, on all its vCPUs.
#[derive(Debug)]
pub struct Yielder {
    work: Duration,
    worked: Vec<bool>,
    yields: u64,
}

impl Yielder {
    /// Yields after each `work`.
    ///
    /// # Panics
    /// If `work` is zero: it would yield for ever at one instant.
    pub fn new(config: YielderConfig) -> Self {
        let YielderConfig { work } = config;
        assert!(!work.is_zero(), "a yielder has to work in between");
        Yielder { work, worked: Vec::new(), yields: 0 }
    }
}

impl Guest for Yielder {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.worked = vec![false; cx.vcpus()];
    }

    fn step(&mut self, _cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        self.worked[vcpu] = !self.worked[vcpu];
        if self.worked[vcpu] {
            return Step::Compute(self.work);
        }
        self.yields += 1;
        Step::Yield
    }

    fn timer(&mut self, _cx: &mut GuestContext<'_>, _token: u32) {}

    fn outcome(&self) -> Outcome {
        Outcome { latency: None, counters: vec![("yields", self.yields)] }
    }
}
