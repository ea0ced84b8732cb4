//! What must hold between any two events; for tests.

use super::state::Core;
use crate::ids::{Pcpu, Vcpu};

impl Core {
    /// Checks what must hold between any two events, whatever the scheduler; for tests.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let host = &self.host;
        for (i, state) in host.vcpus.iter().enumerate() {
            let v = Vcpu(i as u16);
            let places = host.current.iter().filter(|&&c| c == Some(v)).count();
            if places > 1 {
                return Err(format!("{v:?} runs on {places} pCPUs at {:?}", host.now));
            }
            if places == 1 && !state.hard().has(state.processor) {
                return Err(format!("{v:?} runs outside its affinity at {:?}", host.now));
            }
        }
        for (p, pcpu) in self.pcpus.iter().enumerate() {
            let Some(v) = host.current[p] else { continue };
            let idle = pcpu.switching.is_none() && self.progress[v.index()].executing.is_none();
            // One that waits for an answer from the port is next.
            if idle && self.needs_step != Some(v) {
                return Err(format!("{v:?} has a pCPU and does nothing at {:?}", host.now));
            }
        }
        self.sched.0.check(host)
    }

    /// pCPUs that idle although a vCPU that may run there waits, and nothing is under way
    /// that would change it (no tickle, no switch): lost work.
    pub(crate) fn idle_beside_waiting(&self) -> Option<(Pcpu, Vcpu)> {
        let host = &self.host;
        let idle = |p: Pcpu| {
            let pcpu = &self.pcpus[p.index()];
            host.current[p.index()].is_none()
                && !pcpu.tickled
                && !pcpu.reschedule
                && pcpu.switching.is_none()
        };
        let waiting = host.vcpus.iter().enumerate().filter(|(_, s)| s.runnable() && !s.running);
        for (i, state) in waiting {
            if let Some(p) = state.hard().and(host.pcpus).iter().find(|&p| idle(p)) {
                return Some((p, Vcpu(i as u16)));
            }
        }
        None
    }
}
