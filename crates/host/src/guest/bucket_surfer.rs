//! Works in bursts that a token bucket of a given rate and depth just lets pass.
//!
//! The attack aims at schedulers that treat small users better and find them by a budget:
//! whoever stays within so much work per burst and such a share over time. The surfer does,
//! always, with nothing to spare. It measures its share by the wall clock: the next burst
//! begins when the share has paid for the last one, counted from where that one began, even
//! if it was slowed in between. So it never asks for less than the bucket lets through.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::{Duration, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least_1us;
use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::notification::Origin;

/// Where a vCPU is in its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asleep,
    Due,
    /// Busy with the burst that began then.
    Working(Time),
}

/// Parameters of a `bucket-surfer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketSurferConfig {
    /// Work of a burst, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub burst: Duration,
    /// Share of a pCPU that each vCPU takes, in percent.
    #[schemars(range(min = 1, max = 100))]
    pub share_percent: u64,
}

impl BucketSurferConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        at_least_1us("burst", self.burst)?;
        if !(1..=100).contains(&self.share_percent) {
            let message = format!("share {} %: 1 to 100", self.share_percent);
            return Err(KeyError::new("share_percent", message));
        }
        Ok(())
    }
}

/// Uses a share of a pCPU in bursts of a fixed size, on each of its vCPUs.
#[derive(Debug)]
pub struct BucketSurfer {
    burst: Duration,
    /// From the beginning of a burst to that of the next.
    period: Duration,
    phases: Vec<Phase>,
}

impl BucketSurfer {
    /// Works for `burst` at a time, `share_percent` of the time.
    ///
    /// # Panics
    /// If `burst` is zero, or `share_percent` is not within 1 to 100.
    pub fn new(config: BucketSurferConfig) -> Self {
        let BucketSurferConfig { burst, share_percent } = config;
        assert!(!burst.is_zero() && (1..=100).contains(&share_percent), "share {share_percent} %");
        let period = burst.mul_div(100, share_percent);
        BucketSurfer { burst, period, phases: Vec::new() }
    }
}

impl Guest for BucketSurfer {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.phases = vec![Phase::Due; cx.vcpus()];
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        let now = cx.now();
        if let Phase::Working(began) = self.phases[vcpu] {
            let next = began + self.period;
            if next > now {
                self.phases[vcpu] = Phase::Asleep;
                cx.at(next, vcpu as u32);
                return Step::Block;
            }
        }
        if self.phases[vcpu] == Phase::Asleep {
            return Step::Block;
        }
        self.phases[vcpu] = Phase::Working(now);
        Step::Compute(self.burst)
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        self.phases[token as usize] = Phase::Due;
        cx.notify(token as usize, Origin::OwnProcessor);
    }
}
