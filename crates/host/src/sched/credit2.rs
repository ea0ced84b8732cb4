//! Xen's credit2 scheduler.
//!
//! pCPUs are grouped into run queues, each sorted by credit; who has burnt least is in
//! front. Nobody is boosted: a server that slept is ahead simply because it burnt less.
//! When the best credit of a queue is used up, everybody in it gets 10 ms more.
//!
//! Three sets of rules and one of our own, from `xen/common/sched_credit2.c` (since 2019
//! `xen/common/sched/credit2.c`):
//!
//! * [`Credit2Version::Xen481`]: RELEASE-4.8.1. A wake-up tickles the pCPU whose credit is
//!   lower, whatever the rate limit says. That pCPU enters its scheduler, refuses
//!   (`runq_candidate`), and programs `max(500 us, rate limit - time run)`
//!   (`csched2_runtime`).
//! * [`Credit2Version::Xen410`]: 4.10 to 4.20.1 (and 4.19.2). A pCPU that has run for
//!   less than the rate limit less 50 us is not tickled (`is_preemptable`, commit
//!   4b6923acff), and nobody re-arms its timer, so that the waker waits for the timer
//!   programmed before: up to 10 ms. Caps and soft affinity. 4.10 to 4.13 had another
//!   condition for the reset of credits (changed by dae7b62e97 in 4.14), not modelled.
//! * [`Credit2Version::Xen421`]: 4.21, and what came to 4.20.2 and 4.19.3: as above, and the credit of the vCPU that was just
//!   preempted counts as that of a waiter (commit ae648e9f80).
//!
//! * [`Credit2Version::Mended`]: 4.21 with the patch of `patches/xen`. If only the rate limit keeps a waker from preempting, the timer
//!   of the pCPU where the limit is over first is set to that end (`runq_tickle`); nobody is tickled for it. The 50 us of tolerance
//!   are gone.
//!
//! What differs from Xen: locks are always free (Xen tries them and gives up), and where 4.8.1 picks a random pCPU of a queue we go
//! round.

mod balance;
mod budget;
mod caps;
mod config;
mod queue;
mod state;
mod tickle;
mod unit;

use lowtail_engine::Duration;

use crate::event::SchedTimer;
use crate::host_state::HostState;
use crate::ids::{Dom, Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;
use crate::sched::scheduler::{Decision, Scheduler};

pub use config::{Credit2Config, Credit2Keys, Credit2Version, RunqueueScope};
use queue::RunQueue;
pub use state::Credit2;
use state::{CREDIT_MIN_NS, MIN_TIMER_NS, ns};
use unit::{CREDIT_INIT_NS, Unit};

/// `CSCHED2_MAX_TIMER`: no slice is longer. It was 2 ms until commit da92ec5bd1, which
/// is in 4.8.
const MAX_TIMER_NS: i64 = CREDIT_INIT_NS;
/// `CSCHED2_CARRYOVER_MAX`: credit above a full reset that may be kept.
const CARRYOVER_MAX_NS: i64 = MIN_TIMER_NS;
/// `CSCHED2_MIGRATE_COMPENSATION`: credit for having moved to another pCPU.
const MIGRATE_COMPENSATION_NS: i64 = 50_000;
impl Credit2 {
    /// `reset_credit`: a new round for everybody in the queue.
    fn reset_credit(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, next: Vcpu) {
        let now_ns = ns(cx.now());
        let rq = self.queue_of[p.index()];
        let next_credit = self.credit(Some(next));
        // Who is so deep in debt that one round does not help gets more at once; how
        // much depends on whether there is a floor.
        let rounds = match self.since_410 {
            true => 1 + i64::from(next_credit == CREDIT_MIN_NS),
            false => {
                1 + (-next_credit).max(0) / CREDIT_INIT_NS
                    * i64::from(next_credit < -CREDIT_INIT_NS)
            }
        };
        for i in 0..self.queues[rq].members.len() {
            let v = self.queues[rq].members[i];
            if cx.is_current(v) {
                self.burn(now_ns, v);
                if self.has_cap(v) && self.units[v.index()].budget <= 0 {
                    self.tickle(cx, cx.vcpu(v).processor);
                }
            }
            let unit = self.unit(v);
            let topped = unit.credit + rounds * CREDIT_INIT_NS;
            unit.credit = topped.min(CREDIT_INIT_NS + CARRYOVER_MAX_NS);
            unit.start_ns = now_ns;
        }
        cx.note(p, next, Note::CreditReset);
    }

    /// `runq_candidate`: who runs next on `p`. Also says, for 4.8.1, whether somebody in
    /// front of the candidate was passed over.
    fn candidate(
        &mut self,
        cx: &mut SchedContext<'_>,
        p: Pcpu,
        prev: Option<Vcpu>,
    ) -> (Option<Vcpu>, bool) {
        let yielding = prev.is_some_and(|v| std::mem::take(&mut self.unit(v).yielding));
        let mut stay = prev.filter(|&v| cx.vcpu(v).runnable());
        if let Some(v) = stay {
            let ran_ns = ns(cx.now()) - ns(cx.vcpu(v).since);
            if !yielding && ran_ns < self.ratelimit_ns {
                cx.note(p, v, Note::RateLimited);
                return (stay, false);
            }
            if self.better_elsewhere(cx, p, v) {
                stay = None;
            }
        }
        let rq = self.queue_of[p.index()];
        let mut skipped = false;
        let mut i = 0;
        while let Some(&v) = self.queues[rq].waiting.get(i) {
            let ahead = self.credit(Some(v)) > self.credit(stay);
            if self.since_410 && !yielding && !ahead {
                break;
            }
            if !self.may_take(cx, p, v, stay) {
                skipped = true;
                i += 1;
                continue;
            }
            // A capped vCPU without budget is parked, and so leaves the queue.
            if self.since_410 && self.has_cap(v) && !self.grab_budget(cx, v) {
                continue;
            }
            if yielding || ahead {
                stay = Some(v);
            }
            break;
        }
        (stay, skipped)
    }

    /// Whether `v`, which runs outside of its soft affinity, finds an idle pCPU within.
    fn better_elsewhere(&self, cx: &SchedContext<'_>, p: Pcpu, v: Vcpu) -> bool {
        let state = cx.vcpu(v);
        let queue = &self.queues[self.queue_of[p.index()]];
        let idle = queue.idle.minus(queue.tickled).and(*state.soft()).and(*state.hard());
        self.since_410 && state.has_soft_affinity() && !state.soft().has(p) && !idle.is_empty()
    }

    /// Whether `p` may take `v` from the queue instead of `stay`.
    fn may_take(&self, cx: &SchedContext<'_>, p: Pcpu, v: Vcpu, stay: Option<Vcpu>) -> bool {
        let state = cx.vcpu(v);
        let unit = &self.units[v.index()];
        let queue = &self.queues[unit.rq];
        // Somebody else has been tickled to fetch it and is on the way.
        let fetched = unit.tickled_cpu.is_some_and(|t| t != p && queue.tickled.has(t));
        let resists =
            state.processor != p && self.credit(stay) + self.migrate_resist_ns > unit.credit;
        state.runnable() && state.hard().has(p) && !fetched && !resists
    }

    /// `csched2_runtime`: until when `next` may run on `p`. `inflight` is the credit of
    /// the vCPU that is just leaving and not yet back on the queue.
    fn runtime(&self, cx: &SchedContext<'_>, p: Pcpu, next: Vcpu, inflight: i64) -> Duration {
        let queue = &self.queues[self.queue_of[p.index()]];
        let unit = &self.units[next.index()];
        let mut min_ns = MIN_TIMER_NS;
        if self.ratelimit_ns > 0 {
            let state = cx.vcpu(next);
            let ran_ns = if state.running { ns(cx.now()) - ns(state.since) } else { 0 };
            min_ns = min_ns.max(self.ratelimit_ns - ran_ns);
        }
        let waiting = queue.waiting.first().map_or(0, |&v| self.credit(Some(v)));
        let rival = waiting.max(inflight).max(0);
        let ahead = unit.credit - rival;
        let mut time_ns = ahead.max(0) * unit.weight / queue.max_weight;
        time_ns = time_ns.min(unit.budget);
        // Not `clamp`: a rate limit above 10 ms leaves the minimum above the maximum, and
        // then the minimum holds.
        let span_ns = if time_ns < min_ns { min_ns } else { time_ns.min(MAX_TIMER_NS) };
        Duration::from_ns(span_ns as u64)
    }

    /// Puts `v` on the queue that it belongs to, and looks for a pCPU that should take it.
    /// Returns whether there is one.
    fn enqueue(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) -> bool {
        let rq = self.units[v.index()].rq;
        self.queues[rq].insert(&mut self.units, v);
        self.tickle_for(cx, v)
    }

    /// The accounting for `next`, which is to run on `p` after `prev`.
    fn take(
        &mut self,
        cx: &mut SchedContext<'_>,
        p: Pcpu,
        prev: Option<Vcpu>,
        next: Vcpu,
        skipped: bool,
    ) {
        let now = cx.now();
        let rq = self.queue_of[p.index()];
        if prev != Some(next) {
            self.queues[rq].remove(&mut self.units, next);
            self.unit(next).scheduled = true;
        } else if self.since_410 {
            self.update_load(cx, next, 0);
        }
        self.queues[rq].idle.remove(p);
        let top = self.queues[rq].waiting.first().map_or(i64::MIN, |&v| self.credit(Some(v)));
        let own = self.credit(Some(next));
        let over = match self.since_410 {
            true => own.max(top) <= 0,
            false => !skipped && own <= 0,
        };
        if over {
            self.reset_credit(cx, p, next);
            self.balance(cx, p);
        }
        let unit = self.unit(next);
        unit.start_ns = ns(now);
        unit.tickled_cpu = None;
        if cx.vcpu(next).processor != p {
            self.unit(next).credit += MIGRATE_COMPENSATION_NS;
            cx.vcpu_mut(next).processor = p;
        }
    }
}

impl Scheduler for Credit2 {
    fn start(&mut self, cx: &mut SchedContext<'_>) {
        let sets = match self.config.runqueue {
            RunqueueScope::Core => cx.host.topology.cores.clone(),
            RunqueueScope::Socket => cx.host.topology.sockets.clone(),
            RunqueueScope::All => vec![cx.host.pcpus],
        };
        // pCPUs come one by one, and a queue is full before the next one begins.
        for set in sets {
            let all: Vec<Pcpu> = set.iter().collect();
            let parts = all.chunks(usize::from(self.config.runqueue_pcpus));
            self.queues.extend(parts.map(|part| RunQueue::new(part.iter().copied().collect())));
        }
        let pcpus = cx.host.pcpus.iter();
        let home = |p| self.queues.iter().position(|q| q.active.has(p)).unwrap_or(0);
        self.queue_of = pcpus.map(home).collect();
        self.start_budgets(cx);
        for i in 0..cx.host.vcpus.len() {
            let v = Vcpu(i as u16);
            let dom = cx.vcpu(v).dom;
            let unit = Unit::new(i64::from(cx.host.doms[dom.index()].weight));
            self.units.push(unit);
            self.give_quota(cx, v, dom);
            let p = self.pick(cx, v, None);
            cx.vcpu_mut(v).processor = p;
            self.assign(v, self.queue_of[p.index()]);
        }
    }

    fn wake(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let unit = &self.units[v.index()];
        if cx.is_current(v) || unit.on_queue || !cx.vcpu(v).runnable() {
            return;
        }
        if unit.scheduled {
            self.unit(v).delayed_add = true;
            return;
        }
        self.update_load(cx, v, 1);
        if !self.enqueue(cx, v) {
            cx.note(cx.vcpu(v).processor, v, Note::NotTickled);
        }
    }

    fn yielded(&mut self, _view: &mut SchedContext<'_>, v: Vcpu) {
        self.unit(v).yielding = true;
    }

    fn schedule(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision {
        let rq = self.queue_of[p.index()];
        self.queues[rq].tickled.remove(p);
        if let Some(v) = prev {
            self.burn(ns(cx.now()), v);
            if self.has_cap(v) && self.units[v.index()].budget <= 0 {
                self.grab_budget(cx, v);
            }
        }
        let (next, skipped) = self.candidate(cx, p, prev);
        let leaving = prev.filter(|&v| next != prev && cx.vcpu(v).runnable());
        if let Some(v) = leaving {
            self.unit(v).delayed_add = true;
        }
        let Some(next) = next else {
            self.queues[rq].idle.insert(p);
            self.update_queue_load(rq, 0, ns(cx.now()));
            return Decision { next: None, run_for: None };
        };
        self.take(cx, p, prev, next, skipped);
        // Since 4.21 the one who leaves counts as waiting; after a reset, if there was one.
        let inflight = leaving.filter(|_| self.config.version >= Credit2Version::Xen421);
        let inflight = inflight.map_or(0, |v| self.credit(Some(v)));
        Decision { next: Some(next), run_for: Some(self.runtime(cx, p, next, inflight)) }
    }

    fn context_saved(&mut self, cx: &mut SchedContext<'_>, _p: Pcpu, v: Vcpu) {
        self.unit(v).scheduled = false;
        let freed = self.return_budget(cx, v);
        let wanted = std::mem::take(&mut self.unit(v).delayed_add);
        if wanted && cx.vcpu(v).runnable() {
            self.enqueue(cx, v);
        } else {
            self.update_load(cx, v, -1);
        }
        if freed {
            let dom = cx.vcpu(v).dom;
            self.unpark(cx, dom);
        }
        self.finish_migration(cx, v);
    }

    fn timer(&mut self, cx: &mut SchedContext<'_>, timer: SchedTimer) -> Option<Pcpu> {
        self.replenish(cx, Dom(timer.0 as u16));
        None
    }

    fn check(&self, host: &HostState) -> Result<(), String> {
        for (rq, queue) in self.queues.iter().enumerate() {
            queue
                .check(&self.units)
                .map_err(|e| format!("run queue {rq} at {:?}: {e}", host.now))?;
        }
        for (i, (unit, state)) in self.units.iter().zip(&host.vcpus).enumerate() {
            let current = host.current.contains(&Some(Vcpu(i as u16)));
            let lost = state.runnable() && !unit.on_queue && !unit.scheduled && !current;
            if lost && !(unit.delayed_add || unit.migrate_to.is_some()) {
                return Err(format!("vCPU {i} is runnable and in no queue at {:?}", host.now));
            }
            if unit.on_queue && current {
                return Err(format!("vCPU {i} runs and waits at {:?}", host.now));
            }
        }
        Ok(())
    }
}
