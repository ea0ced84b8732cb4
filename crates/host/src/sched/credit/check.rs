//! Checks of the bookkeeping, for tests.

use super::state::{Credit, Priority, Runq};
use crate::host_state::HostState;
use crate::ids::{Pcpu, Vcpu};

impl Credit {
    /// Of a vCPU: its place, its flags and its credits.
    pub(super) fn check_unit(&self, host: &HostState, v: Vcpu) -> Result<(), String> {
        let (unit, state) = (&self.units[v.index()], &host.vcpus[v.index()]);
        let current = host.current[state.processor.index()] == Some(v);
        let wrong = |what: &str| Err(format!("{v:?} at {:?}: {what}: {unit:?}", host.now));
        if unit.queued != (state.runnable() && !current) {
            return wrong("queued if and only if runnable and not given a pCPU");
        }
        if state.paused != (unit.parked || unit.moving) {
            return wrong("paused if and only if parked or on the move");
        }
        if unit.moving && !state.running {
            return wrong("on the move, but gone from its pCPU");
        }
        if unit.parked && host.doms[unit.dom.index()].cap_percent == 0 {
            return wrong("parked without a cap");
        }
        let places = |r: &Runq| r.waiting.iter().filter(|&&w| w == v).count();
        let all: usize = self.runqs.iter().map(places).sum();
        let own = places(&self.runqs[state.processor.index()]);
        if all != usize::from(unit.queued) || all != own {
            return wrong("in the queue of its processor once, or nowhere");
        }
        // Who has more than a slice's worth stops earning and keeps half, but the top-up
        // that went before may have held a share of everybody's debt.
        let slice = self.config.credits_per_slice();
        if unit.credit > slice * (2 + self.units.len() as i64) {
            return wrong("more credits than can be earned");
        }
        // OVER begins with a top-up, which leaves a debt of a slice at most, and lasts until
        // the next one. Others have no bound: nobody looks at a vCPU that dodges the ticks.
        if unit.priority == Priority::Over && unit.credit < -3 * slice {
            return wrong("more debt than there was time to make");
        }
        Ok(())
    }

    /// Of a pCPU: its queue, which a sort leaves in order unless somebody yields.
    pub(super) fn check_queue(&self, host: &HostState, p: Pcpu) -> Result<(), String> {
        let runq = &self.runqs[p.index()];
        let wrong = |what: &str| Err(format!("{p:?} at {:?}: {what}: {runq:?}", host.now));
        if self.busy_queues.has(p) == runq.waiting.is_empty() {
            return wrong("listed as having a queue if and only if it has");
        }
        if self.idlers.has(p) && host.current[p.index()].is_some() {
            return wrong("listed as idle, but it is not");
        }
        let is_over = |v: &&Vcpu| self.units[v.index()].priority == Priority::Over;
        let over_first = runq.waiting.iter().skip_while(|v| !is_over(v)).any(|v| !is_over(&v));
        if over_first && !runq.unsorted && runq.sorted == self.shares.period {
            return wrong("OVER before others in a sorted queue");
        }
        Ok(())
    }
}
