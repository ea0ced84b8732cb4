//! Caps of credit2 (since 4.10, commits ad4b3e1e9d, 6881702486, b23dadae37).
//!
//! A capped domain has a pool of run time, filled up once per period and never above one
//! period's worth. A vCPU takes its quota from the pool when it starts to run and returns
//! what is left when it stops; who finds the pool empty is parked until there is more.

use lowtail_engine::{Duration, Time};

use super::budget::Budget;
use super::state::{Credit2, MIN_TIMER_NS, ns};
use crate::event::SchedTimer;
use crate::ids::{Dom, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;

impl Credit2 {
    /// Fills the pools and starts their timers.
    pub(super) fn start_budgets(&mut self, cx: &mut SchedContext<'_>) {
        let period_ns = self.config.cap_period.as_ns() as i64;
        for dom in 0..cx.host.doms.len() {
            let params = &cx.host.doms[dom];
            let total = period_ns * i64::from(params.cap_percent) / 100;
            let parked = Vec::with_capacity(params.vcpus.len());
            self.budgets.push(Budget { total, left: total, next_ns: period_ns, parked });
            if total > 0 {
                cx.arm(SchedTimer(dom as u32), Time::ZERO + self.config.cap_period);
            }
        }
    }

    /// What `v` takes from its domain's pool at a time: its share, but not less than the
    /// shortest slice.
    pub(super) fn give_quota(&mut self, cx: &SchedContext<'_>, v: Vcpu, dom: Dom) {
        let total = self.budgets[dom.index()].total;
        if total > 0 {
            let vcpus = cx.host.doms[dom.index()].vcpus.len() as i64;
            let unit = self.unit(v);
            unit.quota = (total / vcpus).max(MIN_TIMER_NS);
            unit.budget = 0;
        }
    }

    /// `unit_grab_budget`: gets `v` more budget, or parks it. Overruns are paid back here.
    pub(super) fn grab_budget(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) -> bool {
        let unit = &mut self.units[v.index()];
        if unit.budget > 0 {
            return true;
        }
        let state = cx.vcpu(v);
        let pool = &mut self.budgets[state.dom.index()];
        pool.left += std::mem::take(&mut unit.budget);
        if pool.left > 0 {
            unit.budget = pool.left.min(unit.quota);
            pool.left -= unit.budget;
            return true;
        }
        pool.parked.push(v);
        let (processor, rq, queued) = (state.processor, unit.rq, unit.on_queue);
        unit.parked = true;
        self.update_paused(cx, v);
        cx.note(processor, v, Note::Parked);
        if queued {
            self.queues[rq].remove(&mut self.units, v);
            self.update_load(cx, v, -1);
        }
        false
    }

    /// `unit_return_budget`: gives back what `v` has not used. Returns whether there are
    /// parked vCPUs that could use it.
    pub(super) fn return_budget(&mut self, cx: &SchedContext<'_>, v: Vcpu) -> bool {
        if !self.has_cap(v) || self.units[v.index()].budget <= 0 {
            return false;
        }
        let pool = &mut self.budgets[cx.vcpu(v).dom.index()];
        pool.left += std::mem::take(&mut self.units[v.index()].budget);
        pool.left > 0 && !pool.parked.is_empty()
    }

    /// `unpark_parked_units`: lets the parked vCPUs of `dom` compete again.
    pub(super) fn unpark(&mut self, cx: &mut SchedContext<'_>, dom: Dom) {
        let mut parked = std::mem::take(&mut self.budgets[dom.index()].parked);
        for &v in &parked {
            self.unit(v).parked = false;
            self.update_paused(cx, v);
            if self.units[v.index()].scheduled {
                self.unit(v).delayed_add = true;
            } else if cx.vcpu(v).runnable() && !self.units[v.index()].on_queue {
                self.update_load(cx, v, 1);
                self.enqueue(cx, v);
            }
        }
        parked.clear();
        // Nobody is parked while others are unparked, so the room can be kept.
        self.budgets[dom.index()].parked = parked;
    }

    /// `replenish_domain_budget`.
    pub(super) fn replenish(&mut self, cx: &mut SchedContext<'_>, dom: Dom) {
        let now_ns = ns(cx.now());
        let period_ns = self.config.cap_period.as_ns() as i64;
        let pool = &mut self.budgets[dom.index()];
        while pool.next_ns <= now_ns {
            pool.next_ns += period_ns;
            pool.left += pool.total;
        }
        let next = Time::ZERO + Duration::from_ns(pool.next_ns as u64);
        if pool.left > 0 {
            pool.left = pool.left.min(pool.total);
            self.unpark(cx, dom);
        }
        cx.arm(SchedTimer(u32::from(dom.0)), next);
    }
}
