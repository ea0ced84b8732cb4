//! A loop that never ends: the neighbour that computes.

use super::context::GuestContext;
use super::model::{Guest, Step};
use lowtail_engine::Duration;

/// Computes on all its vCPUs for ever.
#[derive(Debug, Default, Clone, Copy)]
pub struct CpuLoop;

impl Guest for CpuLoop {
    fn start(&mut self, _cx: &mut GuestContext<'_>) {}

    fn step(&mut self, _cx: &mut GuestContext<'_>, _vcpu: usize) -> Step {
        Step::Compute(Duration::MAX)
    }

    fn timer(&mut self, _cx: &mut GuestContext<'_>, _token: u32) {}
}
