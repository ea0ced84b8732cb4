//! Load averages of credit2, and the moves between run queues that follow from them.

use super::state::{Credit2, ns};
use super::unit::PRECISION;
use crate::ids::{Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;

/// Time for the averages is counted in units of 2^10 ns (`LOADAVG_GRANULARITY_SHIFT`).
const GRANULARITY: u32 = 10;
/// The window of the averages, 2^30 ns, in those units.
const WINDOW: u32 = 30 - GRANULARITY;
/// Below capacity, queues may differ by this much before anybody is moved
/// (`opt_underload_balance_tolerance` 0) ...
const TOLERANCE_UNDER: i64 = 1 << PRECISION;
/// ... and above by this much (`opt_overload_balance_tolerance` -3).
const TOLERANCE_OVER: i64 = 1 << (PRECISION - 3);

/// Lets `average` approach `load` for `elapsed` units; a full window forgets everything.
fn approach(average: i64, load: i64, elapsed: i64) -> i64 {
    if elapsed > 1 << WINDOW {
        return load << PRECISION;
    }
    average + ((elapsed * (load << PRECISION)) >> WINDOW) - ((elapsed * average) >> WINDOW)
}

impl Credit2 {
    /// `update_runq_load`.
    pub(super) fn update_queue_load(&mut self, rq: usize, change: i64, now_ns: i64) {
        let now = now_ns >> GRANULARITY;
        let queue = &mut self.queues[rq];
        let elapsed = now - queue.load_updated;
        queue.avgload = approach(queue.avgload, queue.load, elapsed);
        queue.b_avgload = approach(queue.b_avgload, queue.load, elapsed);
        queue.load += change;
        queue.load_updated = now;
    }

    /// `update_svc_load`, before the vCPU becomes runnable (1) or after it ceased (-1).
    fn update_unit_load(&mut self, v: Vcpu, runnable: bool, now_ns: i64) {
        let now = now_ns >> GRANULARITY;
        let unit = self.unit(v);
        unit.avgload = approach(unit.avgload, i64::from(runnable), now - unit.load_updated);
        unit.load_updated = now;
    }

    /// `update_load`: `v` becomes runnable (1), ceases to be (-1), or neither (0).
    pub(super) fn update_load(&mut self, cx: &SchedContext<'_>, v: Vcpu, change: i64) {
        let now_ns = ns(cx.now());
        self.update_queue_load(self.units[v.index()].rq, change, now_ns);
        let was_runnable = match change {
            1 => false,
            -1 => true,
            _ => cx.vcpu(v).runnable(),
        };
        self.update_unit_load(v, was_runnable, now_ns);
    }

    /// `runq_assign`.
    pub(super) fn assign(&mut self, v: Vcpu, rq: usize) {
        self.unit(v).rq = rq;
        let load = self.units[v.index()].avgload;
        let queue = &mut self.queues[rq];
        queue.members.push(v);
        queue.b_avgload += load;
        queue.update_max_weight(&self.units);
    }

    /// `runq_deassign`.
    fn deassign(&mut self, v: Vcpu) {
        let unit = &self.units[v.index()];
        let (rq, load) = (unit.rq, unit.avgload);
        let queue = &mut self.queues[rq];
        queue.members.retain(|&m| m != v);
        queue.b_avgload = (queue.b_avgload - load).max(0);
        queue.update_max_weight(&self.units);
    }

    /// `csched2_res_pick`: a pCPU for `v`, in `wanted` if it was asked to move there, else
    /// in the queue with the lowest load among those of its soft affinity, if it has one,
    /// or of its hard affinity.
    pub(super) fn pick(&mut self, cx: &SchedContext<'_>, v: Vcpu, wanted: Option<usize>) -> Pcpu {
        let state = cx.vcpu(v);
        let own = &self.units[v.index()];
        let member = self.queues[own.rq].members.contains(&v);
        let (own_rq, own_load) = (own.rq, own.avgload);
        let load = |rq: usize| {
            let without = if member && rq == own_rq { own_load } else { 0 };
            ((self.queues[rq].b_avgload - without).max(0), rq)
        };
        let reach = |mask| {
            let open = |rq: &usize| !self.queues[*rq].active.and(mask).is_empty();
            (0..self.queues.len()).filter(open).map(load).min().map(|(_, rq)| (rq, mask))
        };
        let asked = wanted.filter(|&rq| !self.queues[rq].active.and(*state.hard()).is_empty());
        let soft = self.since_410 && state.has_soft_affinity();
        let best = asked
            .map(|rq| (rq, *state.hard()))
            .or_else(|| if soft { reach(state.soft().and(*state.hard())) } else { None })
            .or_else(|| reach(*state.hard()));
        let Some((rq, mask)) = best else { return state.processor };
        let queue = &mut self.queues[rq];
        let p = queue.active.and(mask).next_after(queue.pick_bias).unwrap_or(state.processor);
        queue.pick_bias = p;
        p
    }

    /// `balance_load`: pushes, pulls or swaps the vCPUs that bring this queue and the one
    /// farthest from it closest together.
    pub(super) fn balance(&mut self, cx: &mut SchedContext<'_>, p: Pcpu) {
        if self.queues.len() < 2 {
            return;
        }
        let now_ns = ns(cx.now());
        let here = self.queue_of[p.index()];
        for rq in 0..self.queues.len() {
            self.update_queue_load(rq, 0, now_ns);
        }
        let load = |rq: usize| self.queues[rq].b_avgload;
        let others = (0..self.queues.len()).filter(|&rq| rq != here);
        // The first of those farthest away.
        let far = others.rev().max_by_key(|&rq| (load(here) - load(rq)).abs());
        let Some(there) = far else { return };
        let distance = (load(here) - load(there)).abs();
        let width = |rq: usize| i64::from(self.queues[rq].active.len());
        let capacity = width(here).max(width(there)) << PRECISION;
        let over = load(here).max(load(there)) >= capacity;
        if distance < if over { TOLERANCE_OVER } else { TOLERANCE_UNDER } {
            return;
        }
        for rq in [here, there] {
            for i in 0..self.queues[rq].members.len() {
                let v = self.queues[rq].members[i];
                self.update_unit_load(v, cx.vcpu(v).runnable(), now_ns);
            }
        }
        let (push, pull) = self.best_exchange(cx, here, there, distance);
        if let Some(v) = push {
            self.migrate(cx, v, there);
        }
        if let Some(v) = pull {
            self.migrate(cx, v, here);
        }
    }

    /// The pair to push and to pull (either may be nobody) that leaves the least distance.
    fn best_exchange(
        &self,
        cx: &SchedContext<'_>,
        here: usize,
        there: usize,
        distance: i64,
    ) -> (Option<Vcpu>, Option<Vcpu>) {
        let movable = |v: Vcpu, to: usize| {
            let allowed = cx.vcpu(v).hard().and(self.queues[to].active);
            self.units[v.index()].migrate_to.is_none() && !allowed.is_empty()
        };
        let options = |from: usize, to: usize| {
            let all = self.queues[from].members.iter().copied();
            all.filter(move |&v| movable(v, to)).map(Some).chain([None])
        };
        let weight = |v: Option<Vcpu>| v.map_or(0, |v| self.units[v.index()].avgload);
        let gap = self.queues[here].b_avgload - self.queues[there].b_avgload;
        let mut best = (distance, (None, None));
        for push in options(here, there) {
            for pull in options(there, here) {
                let left = (gap - 2 * weight(push) + 2 * weight(pull)).abs();
                if left < best.0 {
                    best = (left, (push, pull));
                }
            }
        }
        best.1
    }

    /// `migrate`: moves `v` to another queue, now if it waits, after its slice if it runs.
    fn migrate(&mut self, cx: &mut SchedContext<'_>, v: Vcpu, to: usize) {
        let now_ns = ns(cx.now());
        let from = self.units[v.index()].rq;
        if self.units[v.index()].scheduled {
            self.unit(v).migrate_to = Some(to);
            self.update_paused(cx, v);
            self.tickle(cx, cx.vcpu(v).processor);
            return;
        }
        let queued = self.units[v.index()].on_queue;
        if queued {
            self.queues[from].remove(&mut self.units, v);
            self.update_queue_load(from, -1, now_ns);
        }
        self.deassign(v);
        let p = self.pick(cx, v, Some(to));
        cx.vcpu_mut(v).processor = p;
        cx.note(p, v, Note::Stolen);
        self.assign(v, self.queue_of[p.index()]);
        if queued {
            self.update_queue_load(self.units[v.index()].rq, 1, now_ns);
            self.enqueue(cx, v);
        }
    }

    /// The rest of a move that had to wait until the context was saved: what
    /// `sched_unit_migrate_finish` in `xen/common/sched/core.c` does.
    pub(super) fn finish_migration(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let Some(to) = self.unit(v).migrate_to.take() else { return };
        self.deassign(v);
        let p = self.pick(cx, v, Some(to));
        cx.vcpu_mut(v).processor = p;
        self.assign(v, self.queue_of[p.index()]);
        cx.note(p, v, Note::Stolen);
        self.update_paused(cx, v);
        if cx.vcpu(v).runnable() {
            self.update_load(cx, v, 1);
            self.enqueue(cx, v);
        }
    }
}
