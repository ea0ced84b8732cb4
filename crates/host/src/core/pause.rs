//! Domains that the toolstack pauses: their vCPUs do not run until it lets them go on, whatever they are notified of meanwhile.
//!
//! As Xen does (`vcpu_sleep_nosync()` and `vcpu_wake()` of `common/sched/core.c`), and Linux with a frozen group: a vCPU that is paused
//! looks to its scheduler as if it were blocked. One that waits in a queue leaves it when it is chosen next, at the cost of a switch; both
//! kernels take it out at once.

use lowtail_engine::Duration;

use super::Core;
use super::state::Paused;
use crate::ids::{Dom, Vcpu};
use crate::notification::Origin;

impl Core {
    /// Has the vCPUs of `dom` stop.
    pub(crate) fn pause(&mut self, dom: Dom) {
        for i in 0..self.host.doms[dom.index()].vcpus.len() {
            let v = self.host.doms[dom.index()].vcpus[i];
            let state = &self.host.vcpus[v.index()];
            let p = state.processor;
            let paused = if state.blocked { Paused::Asleep } else { Paused::Awake };
            self.progress[v.index()].paused = Some(paused);
            if !state.blocked && self.host.current[p.index()] == Some(v) {
                // It stops when its pCPU has got into its scheduler.
                self.tickled.insert(p);
                self.send_tickles(Duration::ZERO, None);
            }
        }
    }

    /// Lets the vCPUs of `dom` go on.
    pub(crate) fn unpause(&mut self, dom: Dom) {
        for i in 0..self.host.doms[dom.index()].vcpus.len() {
            let v = self.host.doms[dom.index()].vcpus[i];
            let paused = self.progress[v.index()].paused.take();
            if paused == Some(Paused::Awake) && self.host.vcpus[v.index()].blocked {
                self.notify(v, Origin::Elsewhere);
            }
        }
    }

    /// Whether `v` is paused; if so it goes on when it may, since it is notified now.
    pub(super) fn wakes_later(&mut self, v: Vcpu) -> bool {
        let paused = &mut self.progress[v.index()].paused;
        if paused.is_some() {
            *paused = Some(Paused::Awake);
        }
        paused.is_some()
    }
}
