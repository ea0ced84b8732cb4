//! The machine: pCPUs, run states, the delivery of tickles and slice timers, context
//! switches and their costs. What Xen's `common/sched/core.c` does around a scheduler.
//!
//! Life of a wake-up: [`Core::notify`] makes the vCPU runnable and tells the scheduler,
//! which may tickle a pCPU. That pCPU enters its scheduler after the cost of getting
//! there, unless it is in the middle of a switch: then right after it. The scheduler
//! decides; if somebody else is to run, the context is switched for its cost, the vCPU
//! that left may run elsewhere ("context saved"), and the new one goes on with its work.

use lowtail_engine::{Duration, EventQueue, Hist, Time, Timer};

use crate::config::{Config, ConfigError};
use crate::costs::Costs;
use crate::guest::{Guest, GuestCx, Origin, Step};
use crate::ids::{CpuSet, Dom, Pcpu, Vcpu};
use crate::record::{Recorder, What};
use crate::sched::{Facts, SchedTimer, Scheduler, View};

/// Steps that a guest may take at one instant before it is taken for broken.
const STEPS_MAX: u32 = 10_000;

/// Everything that can happen in a host.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A tickled pCPU enters its scheduler.
    Tickled(Pcpu),
    /// A pCPU's slice is over.
    SliceOver(Pcpu),
    /// A pCPU has finished switching context.
    Switched(Pcpu),
    /// A vCPU has finished the work of its step.
    StepDone(Vcpu),
    /// One of the scheduler's own timers.
    SchedulerTimer(SchedTimer),
    /// A timer of a guest or its surroundings.
    Guest {
        /// Whose.
        dom: Dom,
        /// What for.
        token: u32,
    },
}

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

/// What a pCPU has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct PcpuStats {
    /// Times the scheduler was entered.
    pub schedules: u64,
    /// Times another vCPU than before was given the pCPU (idle does not count).
    pub switches: u64,
    /// Time with a vCPU on it, from decision to decision.
    pub busy: Duration,
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
    notified: bool,
    woken_at: Option<Time>,
    preempted_at: Option<Time>,
    began: Time,
    stats: VcpuStats,
}

/// What a vCPU has experienced.
#[derive(Debug, Clone, Default)]
pub struct VcpuStats {
    /// Processor time given to it, from decision to decision as a hypervisor counts it.
    pub cpu: Duration,
    /// The part of that in which its work went on.
    pub work: Duration,
    /// Times it was woken.
    pub wakes: u64,
    /// Times it was given a pCPU.
    pub runs: u64,
    /// Times it lost its pCPU though it could have gone on.
    pub preempted: u64,
    /// From waking to executing.
    pub wake_to_run: Hist,
    /// From losing the pCPU while runnable to executing again.
    pub preempted_to_run: Hist,
}

/// The longest wait from waking to running of the watched vCPU, and what led to it.
#[derive(Debug, Clone)]
pub struct Worst {
    /// When it woke.
    pub woke: Time,
    /// When it ran.
    pub ran: Time,
    /// The schedule up to then, oldest record first.
    pub records: Vec<crate::record::Record>,
}

/// The part of a machine that guests and schedulers act upon.
#[derive(Debug)]
pub struct Core {
    pub(crate) facts: Facts,
    pub(crate) queue: EventQueue<Event>,
    sched: SchedulerBox,
    timers: Vec<Timer>,
    tickled: CpuSet,
    recorder: Recorder,
    pcpus: Vec<PcpuState>,
    progress: Vec<Progress>,
    costs: Costs,
    /// A vCPU that executes and has nothing to do: the machine asks its guest.
    idle_hands: Option<Vcpu>,
    /// Number of each vCPU within its domain.
    vcpu_in_dom: Vec<usize>,
    watched: Option<Vcpu>,
    worst: Option<Worst>,
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
        let mut view = View {
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
    /// Tells `v` that there is something for it; wakes it if it is blocked.
    pub(crate) fn notify(&mut self, v: Vcpu, origin: Origin) {
        let now = self.facts.now;
        self.progress[v.index()].notified = true;
        let state = &mut self.facts.vcpus[v.index()];
        if !state.blocked {
            return;
        }
        state.blocked = false;
        state.since = now;
        let processor = state.processor;
        let progress = &mut self.progress[v.index()];
        progress.woken_at = Some(now);
        progress.stats.wakes += 1;
        self.recorder.push(now, processor, v, What::Wake);
        with_sched!(self, wake, v);
        let near = (origin == Origin::OwnProcessor).then_some(processor);
        self.send_tickles(self.costs.wake_to_tickle, near);
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
        if progress.left != Duration::MAX {
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
    fn switched(&mut self, p: Pcpu) {
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
    fn block(&mut self, v: Vcpu) {
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

    fn yielded(&mut self, v: Vcpu) {
        let p = self.facts.vcpus[v.index()].processor;
        with_sched!(self, yielded, v);
        self.schedule(p);
    }

    fn tickle_arrived(&mut self, p: Pcpu) {
        let pcpu = &self.pcpus[p.index()];
        // The slice may have ended on the way here: then the scheduler has been entered
        // already, or will be when the switch is over.
        if pcpu.tickled && pcpu.switching.is_none() {
            self.schedule(p);
        }
    }

    fn slice_over(&mut self, p: Pcpu) {
        let pcpu = &mut self.pcpus[p.index()];
        if pcpu.switching.is_some() {
            pcpu.tickled = true;
        } else {
            self.schedule(p);
        }
    }
}

/// A host and its guests.
pub struct Machine {
    core: Core,
    guests: Vec<Box<dyn Guest>>,
    started: bool,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("core", &self.core).finish_non_exhaustive()
    }
}

impl Machine {
    /// Builds the host that `config` describes, with every random stream drawn from `seed`.
    ///
    /// # Errors
    /// If the configuration contradicts itself; see [`ConfigError`].
    pub fn new(config: &Config, seed: u64) -> Result<Self, ConfigError> {
        let facts = config.facts()?;
        let progress = facts.vcpus.iter().map(|_| Progress {
            left: Duration::ZERO,
            overhead: Duration::ZERO,
            executing: None,
            done: Timer::NONE,
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
        let watched = config.watch.map(|dom| facts.doms[dom.index()].vcpus[0]);
        let core = Core {
            queue: EventQueue::new(),
            sched: SchedulerBox(config.scheduler.build()),
            timers: Vec::new(),
            tickled: CpuSet::EMPTY,
            recorder: Recorder::new(config.records),
            pcpus: pcpus.collect(),
            progress: progress.collect(),
            costs: config.costs,
            idle_hands: None,
            vcpu_in_dom: facts.doms.iter().flat_map(|dom| 0..dom.vcpus.len()).collect(),
            watched,
            worst: None,
            facts,
        };
        let guests = config.vms.iter().map(|vm| vm.workload.build(seed, &vm.name)).collect();
        Ok(Machine { core, guests, started: false })
    }

    /// Runs until `end`, or until every guest that measures something is done.
    /// Can be called again with a later end. Returns whether they are done.
    pub fn run(&mut self, end: Time) -> bool {
        loop {
            // Asking each guest costs more than an event; now and then is often enough.
            if self.done() {
                return true;
            }
            for _ in 0..64 {
                if !self.step(end) {
                    return self.done();
                }
            }
        }
    }

    /// Runs until `end`, however much the guests have measured by then.
    pub fn run_to(&mut self, end: Time) {
        while self.step(end) {}
        self.core.facts.now = end;
    }

    /// Handles one event, unless the next one is later than `end`. Returns whether it did.
    #[inline]
    pub fn step(&mut self, end: Time) -> bool {
        if !self.started {
            self.start();
        }
        let core = &mut self.core;
        let Some((now, event)) = core.queue.pop_until(end) else { return false };
        core.facts.now = now;
        match event {
            Event::Tickled(p) => core.tickle_arrived(p),
            Event::SliceOver(p) => core.slice_over(p),
            Event::Switched(p) => core.switched(p),
            Event::StepDone(v) => {
                core.suspend(v);
                core.idle_hands = Some(v);
            }
            Event::SchedulerTimer(timer) => {
                with_sched!(core, timer, timer);
                core.send_tickles(Duration::ZERO, None);
            }
            Event::Guest { dom, token } => {
                self.guests[dom.index()].timer(&mut GuestCx { core, dom }, token);
            }
        }
        self.employ();
        true
    }

    /// Asks guests for work until every executing vCPU has some.
    #[inline]
    fn employ(&mut self) {
        let mut steps = 0;
        while let Some(v) = self.core.idle_hands.take() {
            steps += 1;
            assert!(steps < STEPS_MAX, "{v:?} takes step after step in no time");
            let core = &mut self.core;
            core.progress[v.index()].notified = false;
            let dom = core.facts.vcpus[v.index()].dom;
            let vcpu = core.vcpu_in_dom[v.index()];
            match self.guests[dom.index()].step(&mut GuestCx { core, dom }, vcpu) {
                Step::Compute(work) => {
                    core.progress[v.index()].left = work;
                    core.resume(v);
                }
                Step::Block => core.block(v),
                Step::Yield => core.yielded(v),
            }
        }
    }

    /// Sets up scheduler and guests and makes every vCPU runnable, once.
    #[cold]
    fn start(&mut self) {
        self.started = true;
        let core = &mut self.core;
        with_sched!(core, start);
        for (dom, guest) in self.guests.iter_mut().enumerate() {
            guest.start(&mut GuestCx { core, dom: Dom(dom as u16) });
        }
        for v in (0..core.facts.vcpus.len()).map(|i| Vcpu(i as u16)) {
            core.facts.vcpus[v.index()].blocked = false;
            with_sched!(core, wake, v);
            core.send_tickles(Duration::ZERO, None);
        }
    }

    /// Whether there are guests that measure something, and all of them have.
    pub fn done(&self) -> bool {
        let mut measuring = self.guests.iter().filter_map(|guest| guest.done()).peekable();
        measuring.peek().is_some() && measuring.all(|done| done)
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.core.facts.now
    }

    /// The host's state.
    pub fn facts(&self) -> &Facts {
        &self.core.facts
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.core.queue.popped()
    }

    /// What `v` has experienced, up to the last time it lost a pCPU.
    pub fn vcpu_stats(&self, v: Vcpu) -> &VcpuStats {
        &self.core.progress[v.index()].stats
    }

    /// Processor time and work of `v` up to now, also of the slice that it is in.
    pub fn vcpu_time(&self, v: Vcpu) -> (Duration, Duration) {
        let (core, now) = (&self.core, self.core.facts.now);
        let progress = &core.progress[v.index()];
        let (mut cpu, mut work) = (progress.stats.cpu, progress.stats.work);
        if core.facts.current.contains(&Some(v)) {
            cpu += now.since(progress.began);
        }
        if let Some(since) = progress.executing {
            work += now.since(since).saturating_sub(progress.overhead);
        }
        (cpu, work)
    }

    /// What `p` has done.
    pub fn pcpu_stats(&self, p: Pcpu) -> PcpuStats {
        let pcpu = &self.core.pcpus[p.index()];
        let mut stats = pcpu.stats;
        if self.core.facts.current[p.index()].is_some() {
            stats.busy += self.core.facts.now.since(pcpu.busy_since);
        }
        stats
    }

    /// What the guest of `dom` has measured.
    pub fn outcome(&self, dom: Dom) -> crate::guest::Outcome {
        self.guests[dom.index()].outcome()
    }

    /// The recording of the schedule.
    pub fn recorder(&self) -> &Recorder {
        &self.core.recorder
    }

    /// The longest wait of the watched vCPU.
    pub fn worst(&self) -> Option<&Worst> {
        self.core.worst.as_ref()
    }

    /// Checks what must hold between any two events, whatever the scheduler; for tests.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let facts = &self.core.facts;
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
        self.core.sched.0.check(facts)
    }

    /// pCPUs that idle although a vCPU that may run there waits, and nothing is under way
    /// that would change it (no tickle, no switch): lost work.
    pub fn idle_beside_waiting(&self) -> Option<(Pcpu, Vcpu)> {
        let facts = &self.core.facts;
        let idle = |p: Pcpu| {
            let pcpu = &self.core.pcpus[p.index()];
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
