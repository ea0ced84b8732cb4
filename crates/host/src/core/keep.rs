//! Threads that keep their pCPU: those in the host's kernel, which gives a CPU away only where it says so (`cond_resched`). That is so where
//! it preempts voluntarily, and where it does lazily (`CONFIG_PREEMPT_LAZY`, Linux 6.13) until the next tick.

use super::state::Core;
use crate::ids::{Pcpu, Vcpu};
use crate::keep::Keep;

impl Core {
    /// `v`, which has a pCPU, is about to begin a step.
    pub(crate) fn keep(&mut self, v: Vcpu, keep: Keep) {
        self.progress[v.index()].keeps = keep != Keep::No;
    }

    /// That step has begun: whoever was to have the pCPU meanwhile has it now.
    pub(crate) fn give_way(&mut self, v: Vcpu) {
        let p = self.host.vcpus[v.index()].processor;
        let pcpu = &mut self.pcpus[p.index()];
        let mine = pcpu.switching.is_none() && self.host.current[p.index()] == Some(v);
        if !mine || !std::mem::take(&mut pcpu.deferred) {
            return;
        }
        // It is asked again when it has the pCPU again.
        if self.needs_step == Some(v) {
            self.needs_step = None;
        }
        let keeps = std::mem::replace(&mut self.progress[v.index()].keeps, false);
        self.schedule(p);
        self.progress[v.index()].keeps = keeps;
    }

    /// Whether who runs on `p` keeps it, so that it reschedules later.
    pub(super) fn defers(&mut self, p: Pcpu) -> bool {
        let kept = self.host.current[p.index()].is_some_and(|v| self.progress[v.index()].keeps);
        let pcpu = &mut self.pcpus[p.index()];
        pcpu.deferred = kept;
        pcpu.tickled &= !kept;
        kept
    }
}
