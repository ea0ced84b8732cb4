//! What a host asks of the model of a guest: the next step of a vCPU, and what it has measured.

use lowtail_engine::{Duration, Hist};

use super::context::GuestContext;
use crate::io::port::PortRequest;

/// What a vCPU does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Computes for this much processor time; [`Duration::MAX`] is for ever.
    Compute(Duration),
    /// The same, but a notification ends it early: [`GuestContext::left`] says how much is left.
    Run(Duration),
    /// Waits for the next notification. If one came since the step began, it does not wait.
    Block,
    /// Lets others go first.
    Yield,
}

/// The workload of one domain.
pub trait Guest: Send {
    /// Called once at time zero. All vCPUs of the domain are started afterwards.
    fn start(&mut self, cx: &mut GuestContext<'_>);

    /// The domain's vCPU number `vcpu` has a pCPU and nothing to do.
    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step;

    /// A timer set through [`GuestContext::after`] has fired.
    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32);

    /// Something is to be done that came in through the port. `vcpu` is the number of the vCPU
    /// that has just handed something out and waits for the answer; `None`: none of them does.
    fn request(&mut self, _cx: &mut GuestContext<'_>, _vcpu: Option<usize>, _request: PortRequest) {
    }

    /// How many processes it has for what comes in through the port.
    fn processes(&self) -> u16 {
        0
    }

    /// Whether the guest has measured all it was asked to; `None` if it measures nothing.
    fn done(&self) -> Option<bool> {
        None
    }

    /// What it has measured.
    fn outcome(&self) -> Outcome {
        Outcome::default()
    }
}

/// What a guest has measured.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The distribution that the guest is about, such as request latency.
    pub latency: Option<Hist>,
    /// Further figures by name.
    pub counters: Vec<(&'static str, u64)>,
}
