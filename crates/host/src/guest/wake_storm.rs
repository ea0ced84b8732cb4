//! Two domains that wake each other in turn: each is always either fresh awake or asleep.
//!
//! The attack aims at what a wake-up is worth: a boost, a place at the head of the queue, a
//! tickle that interrupts whoever runs. Each of the two does a little work, sends the other
//! an interrupt, as over an event channel, and blocks. Neither ever runs for long, together
//! they never stop, and the neighbours pay with context switches. That VMs of one owner can act
//! together is a point of Zhou et al., "Scheduler vulnerabilities and coordinated attacks in
//! cloud computing", 2011.

use lowtail_engine::Duration;

use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::ids::Dom;

/// Parameters of a [`WakeStorm`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeStormConfig {
    /// Name of the domain that it wakes: another one with this workload and as many vCPUs.
    pub partner: String,
    /// Work after each wake-up, more than zero.
    pub work: Duration,
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
