//! A loop that never ends: the neighbour that computes.

use super::{Guest, GuestCx, Step};
use lowtail_engine::Duration;

/// Computes on all its vCPUs for ever.
#[derive(Debug, Default, Clone, Copy)]
pub struct CpuLoop;

impl Guest for CpuLoop {
    fn start(&mut self, _cx: &mut GuestCx<'_>) {}

    fn step(&mut self, _cx: &mut GuestCx<'_>, _vcpu: usize) -> Step {
        Step::Compute(Duration::MAX)
    }

    fn timer(&mut self, _cx: &mut GuestCx<'_>, _token: u32) {}
}
