//! The tick of a guest's own kernel, which its hypervisor only sees as a timer: it takes time from a vCPU that runs, and wakes one
//! that has just blocked.
//!
//! A Linux guest stops its tick when it idles, but not at once: traces of paravirtualised guests with Linux 6.12 under Xen 4.20 show
//! one tick after each sleep that is long enough for it, and in one of twenty a second one, which is not modelled.

use lowtail_engine::Time;

use super::Core;
use crate::event::Event;
use crate::ids::Vcpu;
use crate::notification::Origin;

impl Core {
    /// Has `v`, which runs, tick, if guests tick here: after a tick, or because it begins to run. Then it owes the tick that came while
    /// it waited, or takes its tick up again.
    pub(super) fn keep_guest_ticking(&mut self, v: Vcpu, ticked: bool) {
        let period = self.costs.guest_tick_period.as_ps();
        if period == 0 {
            return;
        }
        let progress = &mut self.progress[v.index()];
        let tick = &mut progress.tick;
        let waited = std::mem::take(&mut tick.pending);
        if waited {
            progress.overhead += self.costs.guest_tick;
        }
        if tick.alone || std::mem::replace(&mut tick.ahead, true) {
            return;
        }
        if !waited && !ticked {
            progress.overhead += self.costs.guest_tick_restart;
        }
        let (now, phase) = (self.host.now.as_ps(), tick.phase.as_ps());
        let next = if now < phase { phase } else { phase + ((now - phase) / period + 1) * period };
        self.queue.at(Time::from_ps(next), Event::GuestTick(v));
    }

    /// The tick of the kernel on `v`.
    pub(crate) fn guest_tick(&mut self, v: Vcpu) {
        let state = &self.host.vcpus[v.index()];
        let (blocked, p) = (state.blocked, state.processor);
        let progress = &mut self.progress[v.index()];
        progress.tick.ahead = false;
        if blocked && progress.paused.is_some() {
            progress.tick.pending = true;
        } else if blocked {
            progress.tick.alone = true;
            self.notify(v, Origin::OwnProcessor);
        } else if self.host.current[p.index()] != Some(v) {
            progress.tick.pending = true;
        } else if progress.executing.is_some() {
            self.suspend(v);
            self.progress[v.index()].overhead += self.costs.guest_tick;
            self.resume(v);
            self.keep_guest_ticking(v, true);
        } else {
            // On its way to or from the pCPU.
            progress.overhead += self.costs.guest_tick;
            self.keep_guest_ticking(v, true);
        }
    }
}
