//! The mechanics of a host: run states, the delivery of tickles and slice timers, context
//! switches and their costs. What Xen's `common/sched/core.c` does around a scheduler.
//!
//! Life of a wake-up: [`Core::notify`] makes the vCPU runnable and tells the scheduler,
//! which may tickle a pCPU. That pCPU enters its scheduler after the cost of getting
//! there, unless it is in the middle of a switch: then right after it. The scheduler
//! decides; if somebody else is to run, the context is switched for its cost, the vCPU
//! that left may run elsewhere ("context saved"), and the new one goes on with its work.

use lowtail_engine::{Duration, EventQueue, Time, Timer};

use crate::cgroup::CgroupStats;
use crate::config::{Config, Tickle};
use crate::costs::Costs;
use crate::event::{Event, SchedTimer};
use crate::host_state::HostState;
use crate::ids::{Cgroup, CpuSet, Pcpu, Vcpu};
use crate::notification::Origin;
use crate::record::{Recorder, What};
use crate::sched::{SchedContext, Scheduler};
use crate::stats::{PcpuStats, VcpuStats, Worst};

/// A pCPU as the machine sees it.
#[derive(Debug)]
struct PcpuState {
    /// A tickle is under way or waits for the switch to end.
    tickled: bool,
    /// The context is being switched, away from this vCPU (or from idle).
    switching: Option<Option<Vcpu>>,
    slice: Timer,
    /// Whose state is in the caches.
    warm_for: Option<Vcpu>,
    stats: PcpuStats,
    busy_since: Time,
}

/// A vCPU's progress and figures.
#[derive(Debug)]
struct Progress {
    /// Work left in this step, [`Duration::MAX`] if it never ends.
    left: Duration,
    /// Time that has to pass before work goes on: scheduler passes, cold caches.
    overhead: Duration,
    /// Since when it executes, if it does.
    executing: Option<Time>,
    done: Timer,
    /// A notification ends this step early.
    interruptible: bool,
    /// Work done in this step.
    ran: Duration,
    notified: bool,
    woken_at: Option<Time>,
    preempted_at: Option<Time>,
    began: Time,
    stats: VcpuStats,
}

/// pCPUs, vCPUs and their scheduler; everything but the guests.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) facts: HostState,
    pub(crate) queue: EventQueue<Event>,
    sched: SchedulerBox,
    timers: Vec<Timer>,
    tickled: CpuSet,
    pub(crate) recorder: Recorder,
    pcpus: Vec<PcpuState>,
    progress: Vec<Progress>,
    costs: Costs,
    tickle: Tickle,
    /// pCPUs to tickle when who runs there has served its events.
    held: CpuSet,
    /// A vCPU that executes and has nothing to do: the machine asks its guest.
    pub(crate) idle_hands: Option<Vcpu>,
    watched: Option<Vcpu>,
    pub(crate) worst: Option<Worst>,
}

/// Only so that `Core` can be printed.
struct SchedulerBox(Box<dyn Scheduler>);

impl std::fmt::Debug for SchedulerBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scheduler")
    }
}

/// Calls a method of the scheduler with a view of the rest.
macro_rules! with_sched {
    ($core:expr, $method:ident $(, $arg:expr)*) => {{
        let core = &mut *$core;
        let mut view = SchedContext {
            facts: &mut core.facts,
            queue: &mut core.queue,
            timers: &mut core.timers,
            tickled: &mut core.tickled,
            recorder: &mut core.recorder,
        };
        core.sched.0.$method(&mut view $(, $arg)*)
    }};
}

impl Core {
    /// A host at rest at time zero. `watched` is the vCPU whose longest wait is kept.
    pub(crate) fn new(facts: HostState, config: &Config, watched: Option<Vcpu>) -> Self {
        let progress = facts.vcpus.iter().map(|_| Progress {
            left: Duration::ZERO,
            overhead: Duration::ZERO,
            executing: None,
            done: Timer::NONE,
            interruptible: false,
            ran: Duration::ZERO,
            notified: false,
            woken_at: None,
            preempted_at: None,
            began: Time::ZERO,
            stats: VcpuStats::default(),
        });
        let pcpus = facts.current.iter().map(|_| PcpuState {
            tickled: false,
            switching: None,
            slice: Timer::NONE,
            warm_for: None,
            stats: PcpuStats::default(),
            busy_since: Time::ZERO,
        });
        Core {
            queue: EventQueue::new(),
            sched: SchedulerBox(config.scheduler.build()),
            timers: Vec::new(),
            tickled: CpuSet::EMPTY,
            recorder: Recorder::new(config.records),
            pcpus: pcpus.collect(),
            progress: progress.collect(),
            costs: config.costs,
            tickle: config.tickle,
            held: CpuSet::EMPTY,
            idle_hands: None,
            watched,
            worst: None,
            facts,
        }
    }

    /// Sets up the scheduler.
    pub(crate) fn start(&mut self) {
        with_sched!(self, start);
    }

    /// Makes `v` runnable for the first time.
    pub(crate) fn boot(&mut self, v: Vcpu) {
        self.facts.vcpus[v.index()].blocked = false;
        with_sched!(self, wake, v);
        self.send_tickles(Duration::ZERO, None);
    }

    /// One of the scheduler's own timers has fired.
    pub(crate) fn scheduler_timer(&mut self, timer: SchedTimer) {
        with_sched!(self, timer, timer);
        self.send_tickles(Duration::ZERO, None);
    }

    /// `v` has finished the work of its step.
    pub(crate) fn step_done(&mut self, v: Vcpu) {
        self.suspend(v);
        self.idle_hands = Some(v);
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
            let progress = &mut self.progress[v.index()];
            progress.executing = Some(self.facts.now);
            progress.done = self.queue.after(progress.overhead, Event::StepDone(v));
        }
    }

    /// Tells `v` that there is something for it; wakes it if it is blocked.
    pub(crate) fn notify(&mut self, v: Vcpu, origin: Origin) {
        let near = origin != Origin::Elsewhere;
        let now = self.facts.now;
        self.interrupt(v);
        let state = &mut self.facts.vcpus[v.index()];
        let processor = state.processor;
        if !state.blocked {
            if self.facts.current[processor.index()] != Some(v) {
                with_sched!(self, kicked, v);
                self.send_tickles(self.costs.wake_to_tickle, near.then_some(processor));
            }
            return;
        }
        state.blocked = false;
        state.since = now;
        let progress = &mut self.progress[v.index()];
        progress.woken_at = Some(now);
        progress.stats.wakes += 1;
        self.recorder.push(now, processor, v, What::Wake);
        with_sched!(self, wake, v);
        if origin == Origin::Beside && self.tickle != Tickle::Each && self.tickled.has(processor) {
            // Who sends goes on sending first.
            self.tickled.remove(processor);
            self.held.insert(processor);
        }
        let near = near.then_some(processor);
        self.send_tickles(self.costs.wake_to_tickle, near);
    }

    /// `v`, which has a pCPU, has served all its events.
    pub(crate) fn served(&mut self, v: Vcpu) {
        let p = self.facts.vcpus[v.index()].processor;
        if self.held.has(p) {
            self.held.remove(p);
            if self.tickle == Tickle::After {
                self.tickled.insert(p);
                self.send_tickles(self.costs.wake_to_tickle, Some(p));
            }
        }
    }

    /// Sends the tickles that the scheduler asked for. `near` is the pCPU on which it
    /// ran: a tickle to itself needs no interrupt.
    fn send_tickles(&mut self, decision: Duration, near: Option<Pcpu>) {
        for p in std::mem::take(&mut self.tickled).iter() {
            let idle = self.facts.current[p.index()].is_none();
            let pcpu = &mut self.pcpus[p.index()];
            if std::mem::replace(&mut pcpu.tickled, true) || pcpu.switching.is_some() {
                continue;
            }
            let way = match (idle, near == Some(p)) {
                (true, _) => self.costs.tickle_to_schedule_idle,
                (false, false) => self.costs.tickle_to_schedule,
                (false, true) => Duration::ZERO,
            };
            self.queue.after(decision + way, Event::Tickled(p));
        }
    }

    /// Stops the clock of `v`'s work.
    fn suspend(&mut self, v: Vcpu) {
        let progress = &mut self.progress[v.index()];
        let Some(since) = progress.executing.take() else { return };
        let elapsed = self.facts.now.since(since);
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
            self.idle_hands = Some(v);
            return;
        }
        progress.executing = Some(self.facts.now);
        if progress.interruptible && progress.notified {
            progress.done = self.queue.after(progress.overhead, Event::StepDone(v));
        } else if progress.left != Duration::MAX {
            let span = progress.overhead + progress.left;
            progress.done = self.queue.after(span, Event::StepDone(v));
        }
    }

    /// `p` enters its scheduler.
    fn schedule(&mut self, p: Pcpu) {
        let now = self.facts.now;
        let prev = self.facts.current[p.index()];
        let pcpu = &mut self.pcpus[p.index()];
        debug_assert!(pcpu.switching.is_none());
        pcpu.tickled = false;
        pcpu.stats.schedules += 1;
        let old_slice = pcpu.slice;
        self.queue.cancel(old_slice);
        if let Some(v) = prev {
            self.suspend(v);
        }
        let decision = with_sched!(self, schedule, p, prev);
        if let Some(span) = decision.run_for {
            self.pcpus[p.index()].slice = self.queue.at(now + span, Event::SliceOver(p));
        }
        self.send_tickles(Duration::ZERO, Some(p));
        match (prev, decision.next) {
            (Some(v), Some(next)) if v == next => {
                debug_assert!(!self.facts.vcpus[v.index()].blocked);
                self.progress[v.index()].overhead += self.costs.schedule;
                self.resume(v);
            }
            (None, None) => {}
            (prev, next) => self.switch(p, prev, next),
        }
    }

    /// Begins to switch `p` from `prev` to `next`.
    fn switch(&mut self, p: Pcpu, prev: Option<Vcpu>, next: Option<Vcpu>) {
        let now = self.facts.now;
        if let Some(v) = prev {
            self.leave(p, v);
        }
        self.facts.current[p.index()] = next;
        let pcpu = &mut self.pcpus[p.index()];
        pcpu.switching = Some(prev);
        let mut cost = self.costs.schedule;
        match next {
            Some(v) => {
                let state = &mut self.facts.vcpus[v.index()];
                assert!(!state.running, "{v:?} given to {p:?} while it runs elsewhere");
                // It may be paused already: credit2 can decide to move a vCPU right after
                // picking it. It then tickles, and the vCPU leaves at once.
                assert!(!state.blocked && state.hard.has(p), "{v:?} may not run on {p:?}");
                state.running = true;
                state.since = now;
                let progress = &mut self.progress[v.index()];
                progress.began = now;
                progress.stats.runs += 1;
                pcpu.stats.switches += 1;
                if pcpu.warm_for != Some(v) {
                    cost += self.costs.context_switch;
                }
                if prev.is_none() {
                    pcpu.busy_since = now;
                }
                self.recorder.push(now, p, v, What::Run);
            }
            None => pcpu.stats.busy += now.since(pcpu.busy_since),
        }
        self.queue.after(cost, Event::Switched(p));
    }

    /// `v` loses `p`.
    fn leave(&mut self, p: Pcpu, v: Vcpu) {
        let now = self.facts.now;
        let state = &mut self.facts.vcpus[v.index()];
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
            self.facts.vcpus[v.index()].running = false;
            with_sched!(self, context_saved, p, v);
            self.send_tickles(Duration::ZERO, Some(p));
        }
        if let Some(v) = self.facts.current[p.index()] {
            self.begin(p, v);
        }
        // A tickle that came during the switch is served before the guest's next
        // instruction, as on the way back into the guest in Xen.
        if self.pcpus[p.index()].tickled {
            self.idle_hands = None;
            self.schedule(p);
        }
    }

    /// `v` executes on `p` from now on.
    fn begin(&mut self, p: Pcpu, v: Vcpu) {
        let now = self.facts.now;
        let pcpu = &mut self.pcpus[p.index()];
        let progress = &mut self.progress[v.index()];
        if pcpu.warm_for.replace(v) != Some(v) {
            progress.overhead += self.costs.cold_cache;
        }
        if let Some(preempted) = progress.preempted_at.take() {
            progress.stats.preempted_to_run.record(now.since(preempted));
        }
        if let Some(woke) = progress.woken_at.take() {
            let wait = now.since(woke);
            progress.stats.wake_to_run.record(wait);
            if self.watched == Some(v) {
                self.watch(woke, wait);
            }
        }
        self.resume(v);
    }

    /// Keeps the schedule around the longest wait so far.
    fn watch(&mut self, woke: Time, wait: Duration) {
        if self.worst.as_ref().is_some_and(|w| w.ran.since(w.woke) >= wait) {
            return;
        }
        // As much again before the wake-up as the wait itself, for the cause.
        let from = Time::from_ps(woke.as_ps().saturating_sub(wait.as_ps() * 2));
        let records = self.recorder.iter().rev().take_while(|r| r.time >= from);
        let mut records: Vec<_> = records.copied().collect();
        records.reverse();
        self.worst = Some(Worst { woke, ran: self.facts.now, records });
    }

    /// `v` blocks, unless it was notified since its step began.
    pub(crate) fn block(&mut self, v: Vcpu) {
        if self.progress[v.index()].notified {
            self.idle_hands = Some(v);
            return;
        }
        let state = &mut self.facts.vcpus[v.index()];
        state.blocked = true;
        let p = state.processor;
        debug_assert_eq!(self.facts.current[p.index()], Some(v));
        self.schedule(p);
    }

    pub(crate) fn yielded(&mut self, v: Vcpu) {
        let p = self.facts.vcpus[v.index()].processor;
        with_sched!(self, yielded, v);
        self.schedule(p);
    }

    pub(crate) fn tickle_arrived(&mut self, p: Pcpu) {
        let pcpu = &self.pcpus[p.index()];
        // The slice may have ended on the way here: then the scheduler has been entered
        // already, or will be when the switch is over.
        if pcpu.tickled && pcpu.switching.is_none() {
            self.schedule(p);
        }
    }

    pub(crate) fn slice_over(&mut self, p: Pcpu) {
        let pcpu = &mut self.pcpus[p.index()];
        if pcpu.switching.is_some() {
            pcpu.tickled = true;
        } else {
            self.schedule(p);
        }
    }

    /// What `v` has experienced, up to the last time it lost a pCPU.
    pub(crate) fn vcpu_stats(&self, v: Vcpu) -> &VcpuStats {
        &self.progress[v.index()].stats
    }

    /// Processor time and work of `v` up to now, also of the slice that it is in.
    pub(crate) fn vcpu_time(&self, v: Vcpu) -> (Duration, Duration) {
        let now = self.facts.now;
        let progress = &self.progress[v.index()];
        let (mut cpu, mut work) = (progress.stats.cpu, progress.stats.work);
        if self.facts.current.contains(&Some(v)) {
            cpu += now.since(progress.began);
        }
        if let Some(since) = progress.executing {
            work += now.since(since).saturating_sub(progress.overhead);
        }
        (cpu, work)
    }

    /// What has happened to `cgroup`.
    pub(crate) fn cgroup_stats(&self, cgroup: Cgroup) -> Option<CgroupStats> {
        self.sched.0.cgroup_stats(&self.facts, cgroup)
    }

    /// What `p` has done.
    pub(crate) fn pcpu_stats(&self, p: Pcpu) -> PcpuStats {
        let pcpu = &self.pcpus[p.index()];
        let mut stats = pcpu.stats;
        if self.facts.current[p.index()].is_some() {
            stats.busy += self.facts.now.since(pcpu.busy_since);
        }
        stats
    }

    /// Checks what must hold between any two events, whatever the scheduler; for tests.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let facts = &self.facts;
        for (i, state) in facts.vcpus.iter().enumerate() {
            let v = Vcpu(i as u16);
            let places = facts.current.iter().filter(|&&c| c == Some(v)).count();
            if places > 1 {
                return Err(format!("{v:?} runs on {places} pCPUs at {:?}", facts.now));
            }
            if places == 1 && !state.hard.has(state.processor) {
                return Err(format!("{v:?} runs outside its affinity at {:?}", facts.now));
            }
        }
        for (p, pcpu) in self.pcpus.iter().enumerate() {
            let Some(v) = facts.current[p] else { continue };
            let idle = pcpu.switching.is_none() && self.progress[v.index()].executing.is_none();
            // One that waits for an answer from the port is next.
            if idle && self.idle_hands != Some(v) {
                return Err(format!("{v:?} has a pCPU and does nothing at {:?}", facts.now));
            }
        }
        self.sched.0.check(facts)
    }

    /// pCPUs that idle although a vCPU that may run there waits, and nothing is under way
    /// that would change it (no tickle, no switch): lost work.
    pub(crate) fn idle_beside_waiting(&self) -> Option<(Pcpu, Vcpu)> {
        let facts = &self.facts;
        let idle = |p: Pcpu| {
            let pcpu = &self.pcpus[p.index()];
            facts.current[p.index()].is_none() && !pcpu.tickled && pcpu.switching.is_none()
        };
        let waiting = facts.vcpus.iter().enumerate().filter(|(_, s)| s.runnable() && !s.running);
        for (i, state) in waiting {
            if let Some(p) = state.hard.and(facts.pcpus).iter().find(|&p| idle(p)) {
                return Some((p, Vcpu(i as u16)));
            }
        }
        None
    }
}
