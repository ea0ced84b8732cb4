//! The mechanics of a host: run states, the delivery of tickles and slice timers, context
//! switches and their costs. What Xen's `common/sched/core.c` does around a scheduler.
//!
//! Life of a wake-up: [`Core::notify`] makes the vCPU runnable and tells the scheduler,
//! which may tickle a pCPU. That pCPU enters its scheduler after the cost of getting
//! there, unless it is in the middle of a switch: then right after it. The scheduler
//! decides; if somebody else is to run, the context is switched for its cost, the vCPU
//! that left may run elsewhere ("context saved"), and the new one goes on with its work.

mod check;
mod figures;
mod guest_tick;
mod keep;
mod pause;
mod smt;
mod state;

use lowtail_engine::{Duration, Time};

use crate::config::Tickle;
use crate::event::{Event, SchedTimer};
use crate::ids::{Pcpu, Vcpu};
use crate::notification::Origin;
use crate::record::What;
use crate::sched::{Pass, SchedContext};
pub(crate) use state::Core;

/// Calls a method of the scheduler with what it may see and do.
macro_rules! with_sched {
    ($core:expr, $method:ident $(, $arg:expr)*) => {{
        let core = &mut *$core;
        let mut cx = SchedContext {
            host: &mut core.host,
            queue: &mut core.queue,
            timers: &mut core.timers,
            tickled: &mut core.tickled,
            slices: &mut core.slices,
            recorder: &mut core.recorder,
            groups: &mut core.groups,
            pass: &mut core.pass,
        };
        core.sched.0.$method(&mut cx $(, $arg)*)
    }};
}

impl Core {
    /// How long after it is set a timer ends at the earliest.
    pub(crate) fn timer_slop(&self) -> Duration {
        self.costs.timer_slop
    }

    /// Sets up the scheduler.
    pub(crate) fn start(&mut self) {
        with_sched!(self, start);
    }

    /// Makes `v` runnable for the first time.
    pub(crate) fn boot(&mut self, v: Vcpu) {
        self.host.vcpus[v.index()].blocked = false;
        with_sched!(self, wake, v);
        self.send_tickles(Duration::ZERO, None);
    }

    /// One of the scheduler's own timers has fired.
    pub(crate) fn scheduler_timer(&mut self, timer: SchedTimer) {
        let Some(p) = with_sched!(self, timer, timer) else {
            return self.send_tickles(Duration::ZERO, None);
        };
        let takes = self.costs.retry;
        self.send_tickles(takes, Some((p, Duration::ZERO)));
        if !takes.is_zero() {
            self.take_time(p, takes);
        }
    }

    /// `v` has finished the work of its step.
    pub(crate) fn step_done(&mut self, v: Vcpu) {
        self.suspend(v);
        self.finished(v);
    }

    /// `v`, which has a pCPU, has nothing left to do before its next step.
    fn finished(&mut self, v: Vcpu) {
        if std::mem::take(&mut self.progress[v.index()].blocking) {
            self.block_now(v);
        } else {
            self.needs_step = Some(v);
        }
    }

    /// A new step of `v` begins: what it is notified of from now on is news.
    /// Returns what was left of the last one, and the work done in it.
    pub(crate) fn begin_step(&mut self, v: Vcpu) -> (Duration, Duration) {
        let progress = &mut self.progress[v.index()];
        progress.notified = false;
        let left = std::mem::take(&mut progress.left);
        (left, std::mem::take(&mut progress.ran))
    }

    /// `v`, which has a pCPU, is to work for so long, or until it is notified.
    pub(crate) fn compute(&mut self, v: Vcpu, work: Duration, interruptible: bool) {
        let progress = &mut self.progress[v.index()];
        progress.left = work;
        progress.interruptible = interruptible;
        if std::mem::take(&mut progress.tick.alone) {
            self.keep_guest_ticking(v, false);
        }
        self.resume(v);
    }

    /// Ends the step of `v` early, now or when it runs next.
    pub(crate) fn interrupt(&mut self, v: Vcpu) {
        let progress = &mut self.progress[v.index()];
        progress.notified = true;
        if progress.interruptible && progress.executing.is_some() {
            // Not before its caches are warm; nor twice, nor later than planned. Through an event,
            // since several vCPUs may be notified at one instant, also at the end of this step.
            self.suspend(v);
            self.execute(v);
        }
    }

    /// Tells `v` that there is something for it; wakes it if it is blocked.
    pub(crate) fn notify(&mut self, v: Vcpu, origin: Origin) {
        let near = origin != Origin::Elsewhere;
        let now = self.host.now;
        self.interrupt(v);
        let state = &mut self.host.vcpus[v.index()];
        let processor = state.processor;
        if !state.blocked && origin == Origin::Thread {
            // Its own work has told it.
            return;
        }
        if !state.blocked {
            if self.host.current[processor.index()] != Some(v) {
                with_sched!(self, kicked, v);
                self.send_wakeup_tickles(near.then_some(processor), Duration::ZERO);
            }
            return;
        }
        if self.wakes_later(v) {
            return;
        }
        let state = &mut self.host.vcpus[v.index()];
        state.blocked = false;
        state.since = now;
        self.way = self.ways[v.index()];
        let progress = &mut self.progress[v.index()];
        progress.woken_at = Some(now);
        progress.stats.wakes += 1;
        self.recorder.push(now, processor, v, What::Wake);
        self.groups = 0;
        with_sched!(self, wake, v);
        self.progress[v.index()].groups = std::mem::take(&mut self.groups);
        if origin == Origin::Beside && self.tickle != Tickle::Each && self.tickled.has(processor) {
            // Who sends goes on sending first.
            self.tickled.remove(processor);
            self.held.insert(processor);
        }
        let groups = self.costs.cgroup_enqueue * u64::from(self.progress[v.index()].groups);
        if origin == Origin::Thread {
            // Who wakes it runs here, and has done so in its own time.
            self.take_time(processor, groups);
            return self.send_tickles(groups, Some((processor, Duration::ZERO)));
        }
        let idle = self.host.current[self.host.vcpus[v.index()].processor.index()].is_none();
        self.send_wakeup_tickles(
            near.then_some(processor),
            if idle { Duration::ZERO } else { groups },
        );
    }

    /// `v`, which has a pCPU, has served all its events.
    pub(crate) fn served(&mut self, v: Vcpu) {
        let p = self.host.vcpus[v.index()].processor;
        if self.held.has(p) {
            self.held.remove(p);
            if self.tickle == Tickle::After {
                self.tickled.insert(p);
                self.send_wakeup_tickles(Some(p), Duration::ZERO);
            }
        }
    }

    /// Sends the tickles that the scheduler asked for at a wake-up that was handled `on` a pCPU, which took so much `more`.
    fn send_wakeup_tickles(&mut self, on: Option<Pcpu>, more: Duration) {
        let decision = self.costs.wake_to_tickle + more;
        let Some(to_self) = self.way.to_self else {
            return self.send_tickles(decision, on.map(|p| (p, Duration::ZERO)));
        };
        let switching = |p: &Pcpu| self.pcpus[p.index()].switching.is_some();
        if let Some(p) = on.filter(|&p| self.tickled.has(p)).filter(switching) {
            // Interrupts are off until the switch is over.
            self.tickled.remove(p);
            let to_idle = self.host.current[p.index()].is_none();
            let way = if to_idle { self.way_from_idle() } else { to_self };
            let pcpu = &mut self.pcpus[p.index()];
            if !std::mem::replace(&mut pcpu.reschedule, true) {
                let at = pcpu.interrupted + decision + way;
                self.queue.at(at, Event::Reschedule(p));
            }
        }
        let late = on.filter(|p| {
            let pcpu = &self.pcpus[p.index()];
            pcpu.tickled && pcpu.switching.is_none()
        });
        self.send_tickles(decision, on.map(|p| (p, to_self)));
        if let Some(p) = late {
            // One interrupt after the other.
            self.pcpus[p.index()].late += decision + to_self;
        }
        if let Some(p) = on {
            let refused = self.costs.refused.filter(|_| !self.pcpus[p.index()].tickled);
            self.take_time(p, refused.unwrap_or(decision + to_self));
        }
    }

    /// An interrupt has `p` for so long, and who runs there stands still, whether it has to go afterwards or not.
    pub(crate) fn take_time(&mut self, p: Pcpu, span: Duration) {
        let Some(v) = self.host.current[p.index()] else { return };
        let pcpu = &mut self.pcpus[p.index()];
        if pcpu.switching.is_none() {
            pcpu.interrupted = pcpu.interrupted.max(self.host.now) + span;
        }
        let executes = self.progress[v.index()].executing.is_some();
        self.suspend(v);
        self.progress[v.index()].overhead += span;
        if executes {
            self.resume(v);
        }
    }

    /// Sends the tickles that the scheduler asked for. `near` is the pCPU on which it
    /// ran, and how long that one takes into its own scheduler: it needs no interrupt.
    fn send_tickles(&mut self, decision: Duration, near: Option<(Pcpu, Duration)>) {
        if self.tickled.is_empty() {
            return;
        }
        for p in std::mem::take(&mut self.tickled).iter() {
            let idle = self.host.current[p.index()].is_none();
            let from_idle = if idle { self.way_from_idle() } else { Duration::ZERO };
            let now = self.host.now;
            let pcpu = &mut self.pcpus[p.index()];
            let interrupted = pcpu.interrupted.saturating_since(now);
            if std::mem::replace(&mut pcpu.tickled, true) || pcpu.switching.is_some() {
                continue;
            }
            let way = match near {
                _ if idle => from_idle,
                Some((own, way)) if own == p => way,
                _ => self.way.to_busy,
            };
            self.queue.after(interrupted + decision + way, Event::Tickled(p));
        }
    }

    /// From tickling an idle pCPU to its scheduler, with what the ticks take that nobody has counted.
    fn way_from_idle(&mut self) -> Duration {
        let way = self.way.to_idle;
        let period = self.costs.tick_period.as_ps();
        if period == 0 {
            return way;
        }
        let ticks = self.host.now.as_ps() / period;
        way + match ticks - std::mem::replace(&mut self.ticks, ticks) {
            0 => Duration::ZERO,
            1 => self.costs.nohz_tick,
            _ => self.costs.nohz_ticks,
        }
    }

    /// Stops the clock of `v`'s work.
    fn suspend(&mut self, v: Vcpu) {
        let progress = &mut self.progress[v.index()];
        let Some(since) = progress.executing.take() else { return };
        let elapsed = self.done_in(self.host.now.since(since), &self.progress[v.index()]);
        let progress = &mut self.progress[v.index()];
        let overhead = elapsed.min(progress.overhead);
        let work = elapsed - overhead;
        progress.overhead -= overhead;
        progress.stats.work += work;
        progress.ran += work;
        if progress.left != Duration::MAX {
            progress.left = progress.left.saturating_sub(work);
        }
        self.queue.cancel(progress.done);
    }

    /// Lets `v` go on with its work, or asks its guest for some.
    fn resume(&mut self, v: Vcpu) {
        let progress = &mut self.progress[v.index()];
        if progress.left.is_zero() && progress.overhead.is_zero() {
            self.finished(v);
            return;
        }
        self.execute(v);
    }

    /// `v`, which has a pCPU and something to do, goes on with it from now on.
    fn execute(&mut self, v: Vcpu) {
        let shares_core = self.shares_core(v);
        let progress = &mut self.progress[v.index()];
        progress.executing = Some(self.host.now);
        progress.shares_core = shares_core;
        if progress.interruptible && progress.notified {
            let overhead = progress.overhead;
            self.step_done_in(v, overhead);
        } else if progress.left != Duration::MAX {
            let span = progress.overhead + progress.left;
            self.step_done_in(v, span);
        }
    }

    /// The step of `v` ends when it has worked for so long.
    fn step_done_in(&mut self, v: Vcpu, span: Duration) {
        let progress = &mut self.progress[v.index()];
        let takes =
            if progress.shares_core { smt::takes(span, self.sibling_percent) } else { span };
        progress.done = self.queue.after(takes, Event::StepDone(v));
    }

    /// `p` enters its scheduler.
    fn schedule(&mut self, p: Pcpu) {
        if self.defers(p) {
            return;
        }
        let now = self.host.now;
        let prev = self.host.current[p.index()];
        let pcpu = &mut self.pcpus[p.index()];
        debug_assert!(pcpu.switching.is_none());
        pcpu.tickled = false;
        pcpu.stats.schedules += 1;
        self.slices[p.index()].cancel(&mut self.queue);
        if let Some(v) = prev {
            self.suspend(v);
            self.host.vcpus[v.index()].blocked |= self.progress[v.index()].paused.is_some();
        }
        (self.groups, self.pass) = (0, Pass::default());
        let decision = with_sched!(self, schedule, p, prev);
        if let Some(span) = decision.run_for {
            let slice = &mut self.slices[p.index()];
            // The scheduler may have ended it in its pass.
            slice.cancel(&mut self.queue);
            slice.over_in((now, span), p, &mut self.queue);
        }
        self.send_tickles(Duration::ZERO, Some((p, Duration::ZERO)));
        match (prev, decision.next) {
            (Some(v), Some(next)) if v == next => {
                debug_assert!(!self.host.vcpus[v.index()].blocked);
                let cost = self.pass_cost();
                self.progress[v.index()].overhead += cost;
                self.resume(v);
            }
            (None, None) => {}
            (prev, next) => self.switch(p, prev, next),
        }
    }

    /// What the scheduler's pass takes that is just over.
    fn pass_cost(&self) -> Duration {
        let (costs, pass) = (&self.costs, &self.pass);
        costs.schedule
            + costs.cgroup_dequeue * u64::from(self.groups)
            + costs.cgroup_pick * u64::from(pass.picked)
            + costs.cgroup_put * u64::from(pass.put)
            // There and back into the scheduler, as who sleeps.
            + (costs.schedule + costs.context_switch) * u64::from(pass.throttled)
    }

    /// Begins to switch `p` from `prev` to `next`.
    fn switch(&mut self, p: Pcpu, prev: Option<Vcpu>, next: Option<Vcpu>) {
        let now = self.host.now;
        if let Some(v) = prev {
            self.leave(p, v);
        }
        self.host.current[p.index()] = next;
        if prev.is_none() != next.is_none() {
            self.sibling_changes(p);
        }
        let mut cost = self.pass_cost();
        let pcpu = &mut self.pcpus[p.index()];
        pcpu.switching = Some(prev);
        match next {
            Some(v) => {
                let state = &mut self.host.vcpus[v.index()];
                assert!(!state.running, "{v:?} given to {p:?} while it runs elsewhere");
                // It may be paused already: credit2 can decide to move a vCPU right after
                // picking it. It then tickles, and the vCPU leaves at once.
                assert!(!state.blocked && state.hard().has(p), "{v:?} may not run on {p:?}");
                state.running = true;
                state.since = now;
                let progress = &mut self.progress[v.index()];
                progress.began = now;
                progress.stats.runs += 1;
                pcpu.stats.switches += 1;
                let entered = std::mem::take(&mut progress.groups);
                if prev.is_none() {
                    // On an idle pCPU it pays for them itself.
                    cost += self.costs.cgroup_enqueue * u64::from(entered);
                }
                match self.costs.context_switch_idle.filter(|_| prev.is_none()) {
                    Some(switch) => cost += switch,
                    None if pcpu.warm_for != Some(v) => cost += self.costs.context_switch,
                    None => {}
                }
                if prev.is_none() {
                    pcpu.busy_since = now;
                }
                self.recorder.push(now, p, v, What::Run);
                self.keep_ticking(p);
            }
            None => pcpu.stats.busy += now.since(pcpu.busy_since),
        }
        self.pcpus[p.index()].interrupted = now + cost;
        self.queue.after(cost, Event::Switched(p));
    }

    /// `v` loses `p`.
    fn leave(&mut self, p: Pcpu, v: Vcpu) {
        let now = self.host.now;
        let state = &mut self.host.vcpus[v.index()];
        state.since = now;
        let progress = &mut self.progress[v.index()];
        progress.stats.cpu += now.since(progress.began);
        if !state.blocked {
            progress.preempted_at = Some(now);
            progress.stats.preempted += 1;
            self.recorder.push(now, p, v, What::Preempt);
        } else {
            self.recorder.push(now, p, v, What::Block);
        }
    }

    /// `p` has finished switching.
    pub(crate) fn switched(&mut self, p: Pcpu) {
        let prev = self.pcpus[p.index()].switching.take().flatten();
        if let Some(v) = prev {
            self.host.vcpus[v.index()].running = false;
            with_sched!(self, context_saved, p, v);
            self.send_tickles(Duration::ZERO, Some((p, Duration::ZERO)));
        }
        if let Some(v) = self.host.current[p.index()] {
            self.begin(p, v);
        }
        // A tickle that came during the switch is served before the guest's next
        // instruction, as on the way back into the guest in Xen.
        if self.pcpus[p.index()].tickled && !self.defers(p) {
            self.needs_step = None;
            self.schedule(p);
        }
    }

    /// `v` executes on `p` from now on.
    fn begin(&mut self, p: Pcpu, v: Vcpu) {
        if self.progress[v.index()].paused.is_some() {
            // It was paused while it waited: away again, and what it waited is no wait for a pCPU.
            let progress = &mut self.progress[v.index()];
            (progress.woken_at, progress.preempted_at) = (None, None);
            self.pcpus[p.index()].tickled = true;
            return;
        }
        let now = self.host.now;
        let pcpu = &mut self.pcpus[p.index()];
        let progress = &mut self.progress[v.index()];
        if pcpu.warm_for.replace(v) != Some(v) {
            progress.overhead += self.costs.cold_cache;
        }
        if let Some(preempted) = progress.preempted_at.take() {
            progress.stats.preemption_latency.record(now.since(preempted));
        }
        if let Some(woke) = progress.woken_at.take() {
            progress.overhead +=
                if progress.tick.alone { self.costs.guest_tick_wakeup } else { self.costs.wakeup };
            let wait = now.since(woke);
            progress.stats.wakeup_latency.record(wait);
            if self.watched == Some(v) {
                self.watch(woke, wait);
            }
        }
        self.keep_guest_ticking(v, false);
        self.resume(v);
    }

    /// `v` blocks when it has got there, unless it was notified since its step began.
    pub(crate) fn block(&mut self, v: Vcpu) {
        let progress = &mut self.progress[v.index()];
        let ticked = std::mem::take(&mut progress.tick.alone);
        if self.costs.block.is_zero() || progress.notified || ticked {
            self.block_now(v);
            return;
        }
        progress.blocking = true;
        progress.interruptible = false;
        progress.overhead += self.costs.block;
        self.resume(v);
    }

    fn block_now(&mut self, v: Vcpu) {
        if self.progress[v.index()].notified {
            self.needs_step = Some(v);
            return;
        }
        let state = &mut self.host.vcpus[v.index()];
        state.blocked = true;
        let p = state.processor;
        debug_assert_eq!(self.host.current[p.index()], Some(v));
        self.schedule(p);
    }

    pub(crate) fn yielded(&mut self, v: Vcpu) {
        let p = self.host.vcpus[v.index()].processor;
        with_sched!(self, yielded, v);
        self.schedule(p);
    }

    pub(crate) fn tickle_arrived(&mut self, p: Pcpu) {
        let pcpu = &mut self.pcpus[p.index()];
        let late = std::mem::take(&mut pcpu.late);
        // The slice may have ended on the way here: then the scheduler has been entered
        // already, or will be when the switch is over.
        if !pcpu.tickled || pcpu.switching.is_some() {
            return;
        }
        if late.is_zero() {
            self.schedule(p);
        } else {
            self.queue.after(late, Event::Tickled(p));
        }
    }

    /// The end of an interrupt that came during a switch.
    pub(crate) fn reschedule(&mut self, p: Pcpu) {
        let pcpu = &mut self.pcpus[p.index()];
        pcpu.reschedule = false;
        if pcpu.switching.is_some() {
            pcpu.tickled = true;
        } else {
            self.schedule(p);
        }
    }

    pub(crate) fn slice_over(&mut self, p: Pcpu) {
        let pcpu = &mut self.pcpus[p.index()];
        if pcpu.switching.is_some() {
            pcpu.tickled = true;
        } else if pcpu.interrupted > self.host.now {
            let at = pcpu.interrupted;
            self.slices[p.index()].over_at(at, p, &mut self.queue);
        } else {
            self.schedule(p);
        }
    }

    /// Has a busy pCPU tick, if its host has ticks.
    fn keep_ticking(&mut self, p: Pcpu) {
        let period = self.costs.tick_period.as_ps();
        let pcpu = &mut self.pcpus[p.index()];
        if period > 0 && !std::mem::replace(&mut pcpu.ticking, true) {
            let next = (self.host.now.as_ps() / period + 1) * period;
            self.queue.at(Time::from_ps(next), Event::Tick(p));
        }
    }

    /// The scheduling-clock interrupt of `p` takes time from who runs there, or of the switch that is under way.
    pub(crate) fn tick(&mut self, p: Pcpu) {
        let (now, tick) = (self.host.now, self.costs.tick);
        let pcpu = &mut self.pcpus[p.index()];
        pcpu.ticking = false;
        let Some(v) = self.host.current[p.index()] else { return };
        self.ticks = now.as_ps() / self.costs.tick_period.as_ps();
        if pcpu.switching.is_some() {
            // Interrupts are off until the switch is over.
            self.progress[v.index()].overhead += tick;
        } else {
            pcpu.interrupted = now + tick;
            if pcpu.tickled {
                // One interrupt after the other.
                pcpu.late += tick;
            }
            self.suspend(v);
            self.progress[v.index()].overhead += tick;
            self.resume(v);
        }
        self.keep_ticking(p);
    }
}
