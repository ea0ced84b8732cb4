//! One thread of work handed round among many vCPUs, so that each seems to sleep a lot.
//!
//! The attack aims at schedulers that judge each vCPU by itself: one that mostly sleeps is
//! boosted when it wakes, has credit left, or is taken for interactive. Of the splitter's
//! vCPUs always exactly one computes; when its turn is over it wakes the next and blocks. So
//! a whole pCPU's worth of work is done by vCPUs each of which looks like a small server.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::at_least_1us;
use super::context::GuestContext;
use super::model::{Guest, Step};

/// Parameters of a `splitter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitterConfig {
    /// Work of a vCPU until it is the next one's turn, at least 1us.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub turn: Duration,
}

impl SplitterConfig {
    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        at_least_1us("turn", self.turn)
    }
}

/// Hands its work from vCPU to vCPU.
#[derive(Debug)]
pub struct Splitter {
    turn: Duration,
    /// Whose turn it is.
    holder: usize,
    working: bool,
}

impl Splitter {
    /// Each vCPU in turn works for `turn`.
    ///
    /// # Panics
    /// If `turn` is zero.
    pub fn new(config: SplitterConfig) -> Self {
        let SplitterConfig { turn } = config;
        assert!(!turn.is_zero(), "turns without work would go round at one instant");
        Splitter { turn, holder: 0, working: false }
    }
}

impl Guest for Splitter {
    fn start(&mut self, _cx: &mut GuestContext<'_>) {}

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        if vcpu != self.holder {
            return Step::Block;
        }
        self.working = !self.working;
        if self.working {
            return Step::Compute(self.turn);
        }
        self.holder = (vcpu + 1) % cx.vcpus();
        cx.interrupt(vcpu, cx.own(), self.holder);
        Step::Block
    }

    fn timer(&mut self, _cx: &mut GuestContext<'_>, _token: u32) {}
}
