//! A guest's kernel, small but real: interrupts, softirqs, threads and processes, one run
//! queue a vCPU.
//!
//! What a vCPU does, in this order:
//!
//! 1. *Interrupts*: the events that are pending, one after the other, each handler to its end.
//! 2. *Softirqs*, before any thread or process: polls of devices and tasklets. Interrupts
//!    get in between. A tasklet runs on one vCPU at a time; another one that has it raised
//!    meanwhile tries again and again (`tasklet_action` puts it back and raises the softirq):
//!    it spins. After ten rounds the rest is left to a thread, `ksoftirqd`; the
//!    next interrupt, at the latest the tick, tries again all the same, unless the kernel is
//!    polite ([`Softirqs::Polite`]).
//! 3. *Threads and processes* by virtual time (`fair.rs`). A thread of the kernel goes on to the
//!    end of its piece of work; a process can be interrupted by another one anywhere.
//!
//! What softirqs, threads and handlers do is a [`Program`]'s business.
//!
//! The file is one thing although it is long: each step of a vCPU chooses among the three, and all change the same state
//! (`state.rs`).

pub mod fair;
mod soft;
mod state;

use std::collections::VecDeque;

use lowtail_engine::{Duration, Hist, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::context::GuestContext;
use super::model::{Guest, Outcome, Step};
use crate::io::packet::Packet;
use crate::io::port::{Job, PortRequest};
use crate::io::ports::Port;
use crate::io::{call_port, timer_port};
use fair::{GRANULARITY, TaskConfig, TaskId, WEIGHT};
pub use soft::SoftId;
use state::{Doing, Kernel, Tasklet};

/// When a kernel runs its softirqs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Softirqs {
    /// After each event, with further interrupts held back (Linux 2.6.18-xen: `do_IRQ` ends with
    /// `do_softirq` within `evtchn_do_upcall`).
    AfterEach,
    /// After all events that are pending.
    #[default]
    AfterAll,
    /// After all events, but left to `ksoftirqd` while that has work (Linux 4.9, 4cd13c21b207, to 6.4).
    Polite,
}

/// The timer interrupt of a vCPU that is not idle (`HZ` = 250). It has softirqs tried again that
/// were left to their thread, and is simulated only where there are some.
const TICK: Duration = Duration::from_ms(4);

/// Rounds of softirqs after an interrupt (`MAX_SOFTIRQ_RESTART`).
const ROUNDS: u32 = 10;

/// What a piece of work begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// So much work.
    Work(Duration),
    /// There is nothing to do.
    Nothing,
}

/// What runs in a kernel.
pub trait Program: Send {
    /// Called once at time zero: adds tasks, binds ports.
    fn start(&mut self, kernel: &mut KernelContext<'_, '_>);

    /// The handler of device number `device` has run.
    fn irq(&mut self, kernel: &mut KernelContext<'_, '_>, device: usize);

    /// A softirq begins.
    fn soft_begin(&mut self, kernel: &mut KernelContext<'_, '_>, soft: SoftId) -> Begin;

    /// It has done its work. Returns whether it raises itself again.
    fn soft_end(&mut self, kernel: &mut KernelContext<'_, '_>, soft: SoftId) -> bool;

    /// A thread or process that is awake begins a piece of work; with nothing to do it sleeps.
    fn task_begin(&mut self, kernel: &mut KernelContext<'_, '_>, task: TaskId) -> Begin;

    /// It has done that.
    fn task_end(&mut self, kernel: &mut KernelContext<'_, '_>, task: TaskId);

    /// The network stack sends a packet that came in through the port.
    fn send(&mut self, _kernel: &mut KernelContext<'_, '_>, _packet: Packet) {}

    /// How many processes it has for what comes in through the port.
    fn processes(&self) -> u16 {
        0
    }

    /// Process number `process` is to do something. Returns its task, which is to be woken.
    fn assign(&mut self, _process: u16, _job: Job) -> Option<TaskId> {
        None
    }

    /// Figures by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The kernel as a program has it while it runs on a vCPU.
#[derive(Debug)]
pub struct KernelContext<'a, 'c> {
    /// The world outside the kernel.
    pub cx: &'a mut GuestContext<'c>,
    kernel: &'a mut Kernel,
    /// The number of the vCPU.
    pub cpu: usize,
}

impl KernelContext<'_, '_> {
    /// Now.
    pub fn now(&self) -> Time {
        self.cx.now()
    }

    /// How many vCPUs there are.
    pub fn cpus(&self) -> usize {
        self.kernel.cpus.len()
    }

    /// Adds a thread or process, asleep.
    pub fn add_task(&mut self, config: TaskConfig) -> TaskId {
        self.kernel.add_task(config)
    }

    /// Raises `soft` on this vCPU. A tasklet that is raised already stays where it is.
    pub fn raise(&mut self, soft: SoftId) {
        let cpu = self.cpu;
        let tasklet = self.kernel.tasklet(soft);
        if tasklet.raised_on.is_some() {
            return;
        }
        tasklet.raised_on = Some(cpu);
        self.kernel.cpus[cpu].raised.push_back(soft);
    }

    /// Wakes `task`; an other vCPU than this one is called for it.
    pub fn wake(&mut self, task: TaskId) {
        let now = self.now();
        let here = self.cpu;
        let Some(cpu) = self.kernel.wake(task, now) else { return };
        if cpu != here {
            let own = self.cx.own();
            self.cx.raise(Some(here), own, call_port(cpu));
        }
    }

    /// This vCPU is busy for `span` with what it has just done, before it does anything else.
    pub(super) fn spend(&mut self, span: Duration) {
        self.kernel.cpus[self.cpu].owed += span;
    }

    /// Wakes `task` after `delay`, by the timer of its vCPU.
    pub fn wake_after(&mut self, task: TaskId, delay: Duration) {
        self.cx.after(delay, u32::from(task.0));
    }
}

/// A domain whose kernel runs `P`.
pub struct KernelGuest<P> {
    kernel: Kernel,
    program: P,
    softirqs: Softirqs,
    /// What came in through the port for the stack to send while no vCPU asked for it: its timer
    /// tells vCPU 0.
    unasked: VecDeque<Packet>,
    /// A task, and no softirq, has last handed something out.
    task_asks: bool,
}

impl<P: Program> KernelGuest<P> {
    /// A kernel at rest.
    pub fn new(softirqs: Softirqs, program: P) -> Self {
        let unasked = VecDeque::with_capacity(64);
        KernelGuest { kernel: Kernel::new(0), program, softirqs, unasked, task_asks: false }
    }

    /// The timer of `task` has fired: its vCPU is told.
    fn expire(&mut self, cx: &mut GuestContext<'_>, task: TaskId) {
        let cpu = self.kernel.tasks[task.index()].cpu;
        let expired = &mut self.kernel.expired[cpu];
        if expired.last() != Some(&task) {
            expired.push(task);
        }
        let own = cx.own();
        cx.raise(None, own, timer_port(cpu));
    }

    /// Puts an end to what vCPU number `cpu` was at: done, or interrupted with some `left`.
    fn finish_step(&mut self, cx: &mut GuestContext<'_>, cpu: usize) {
        let (left, ran) = (cx.left(), cx.ran());
        let doing = std::mem::replace(&mut self.kernel.cpus[cpu].doing, Doing::Nothing);
        self.task_asks = matches!(doing, Doing::Task(..));
        match doing {
            Doing::Nothing => {}
            Doing::Irq(port) => self.handle(cx, cpu, port),
            Doing::Soft(soft) => {
                self.charge(cpu, ran);
                if left.is_zero() {
                    self.soft_done(cx, cpu, soft);
                } else {
                    self.kernel.cpus[cpu].unfinished = Some((soft, left));
                }
            }
            Doing::Spin(soft) => {
                self.charge(cpu, ran);
                self.kernel.cpus[cpu].raised.push_front(soft);
            }
            Doing::Switch(task) => {
                let now = cx.now();
                let task = &mut self.kernel.tasks[task.index()];
                if let (Some(woken), Some(delay)) = (task.woken.take(), &mut task.delay) {
                    delay.record(now.since(woken));
                }
            }
            Doing::Task(id, rest) => {
                self.charge(cpu, ran);
                let state = &mut self.kernel.cpus[cpu];
                state.entered |= state.tick.is_some_and(|tick| cx.now() >= tick);
                let task = &mut self.kernel.tasks[id.index()];
                task.ran += ran;
                let all = if rest == Duration::MAX { rest } else { left + rest };
                task.left = (!all.is_zero()).then_some(all);
                if left.is_zero() {
                    self.kernel.cpus[cpu].look = true;
                }
                if all.is_zero() {
                    let before = self.kernel.cpus[cpu].raised.len();
                    let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu };
                    self.program.task_end(&mut kernel, id);
                    // Softirqs that it has raised run as it enables them again.
                    let state = &mut self.kernel.cpus[cpu];
                    state.entered |= state.raised.len() > before;
                }
            }
        }
    }

    /// The current task of `cpu`, if there is one, has used `ran`.
    fn charge(&mut self, cpu: usize, ran: Duration) {
        let cpu = &mut self.kernel.cpus[cpu];
        let Some(current) = cpu.current else { return };
        cpu.turn += ran;
        let task = &mut self.kernel.tasks[current.index()];
        task.vtime += ran.mul_div(u64::from(WEIGHT), u64::from(task.weight));
        cpu.queue.advance(task.vtime);
    }

    /// The handler of `port` has run.
    fn handle(&mut self, cx: &mut GuestContext<'_>, cpu: usize, port: Port) {
        self.kernel.cpus[cpu].entered = true;
        if port == timer_port(cpu) {
            let mut expired = std::mem::take(&mut self.kernel.expired[cpu]);
            let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu };
            for task in expired.drain(..) {
                kernel.wake(task);
            }
            if cpu == 0 {
                for packet in self.unasked.drain(..) {
                    self.program.send(&mut kernel, packet);
                }
            }
            self.kernel.expired[cpu] = expired;
        } else if let Some(device) = cx.device_of(port) {
            let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu };
            self.program.irq(&mut kernel, device);
        } else {
            debug_assert_eq!(port, call_port(cpu));
            self.kernel.cpus[cpu].look = true;
        }
    }

    fn soft_done(&mut self, cx: &mut GuestContext<'_>, cpu: usize, soft: SoftId) {
        self.kernel.tasklet(soft).running_on = None;
        let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu };
        if self.program.soft_end(&mut kernel, soft) {
            kernel.raise(soft);
        }
        // Who spins may have it now.
        for (other, state) in self.kernel.cpus.iter().enumerate() {
            if matches!(state.doing, Doing::Spin(_)) {
                cx.poke(other);
            }
        }
    }

    /// The next event of `cpu`, and the work of its handler.
    fn next_irq(&mut self, cx: &mut GuestContext<'_>, cpu: usize) -> Option<Step> {
        let port = cx.take_event(cpu)?;
        let costs = cx.io().costs;
        let device = cx.device_of(port);
        let cost = device.map_or(Duration::ZERO, |_| costs.irq);
        self.kernel.cpus[cpu].doing = Doing::Irq(port);
        Some(Step::Compute(costs.upcall + cost))
    }

    /// A step of softirqs; `held`: with interrupts held back.
    fn next_soft(&mut self, cx: &mut GuestContext<'_>, cpu: usize, held: bool) -> Option<Step> {
        let step = |work| if held { Step::Compute(work) } else { Step::Run(work) };
        let state = &mut self.kernel.cpus[cpu];
        if let Some((soft, left)) = state.unfinished.take() {
            state.doing = Doing::Soft(soft);
            return Some(step(left));
        }
        loop {
            let Kernel { cpus, tasklets, .. } = &mut self.kernel;
            let raised = &mut cpus[cpu].raised;
            let free = |soft: &SoftId| tasklets[usize::from(soft.0)].running_on.is_none();
            let Some(at) = raised.iter().position(free) else {
                // Round and round, until one of them is done elsewhere.
                let soft = raised.pop_front()?;
                self.kernel.cpus[cpu].doing = Doing::Spin(soft);
                return Some(Step::Run(Duration::MAX));
            };
            let soft = raised.remove(at)?;
            *self.kernel.tasklet(soft) = Tasklet { raised_on: None, running_on: Some(cpu) };
            let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu };
            match self.program.soft_begin(&mut kernel, soft) {
                Begin::Work(work) => {
                    self.kernel.cpus[cpu].doing = Doing::Soft(soft);
                    return Some(step(work));
                }
                Begin::Nothing => self.kernel.tasklet(soft).running_on = None,
            }
        }
    }

    /// Softirqs outside of their thread.
    fn soft_after_irq(&mut self, cx: &mut GuestContext<'_>, cpu: usize) -> Option<Step> {
        let held = self.softirqs == Softirqs::AfterEach;
        let state = &mut self.kernel.cpus[cpu];
        if std::mem::take(&mut state.entered) && state.unfinished.is_none() {
            let in_thread = state.current == Some(self.kernel.softirqds[cpu]);
            let leave = state.threaded && (self.softirqs == Softirqs::Polite || in_thread);
            state.credit = if leave { 0 } else { ROUNDS * state.raised.len().max(1) as u32 };
        }
        let state = &mut self.kernel.cpus[cpu];
        if state.unfinished.is_some() {
            return self.next_soft(cx, cpu, held);
        }
        if state.raised.is_empty() {
            return None;
        }
        if state.credit == 0 {
            if !std::mem::replace(&mut state.threaded, true) {
                let task = self.kernel.softirqds[cpu];
                self.kernel.wake(task, cx.now());
            }
            return None;
        }
        state.credit -= 1;
        self.next_soft(cx, cpu, held)
    }

    /// A step of threads and processes.
    fn next_task(&mut self, cx: &mut GuestContext<'_>, cpu: usize) -> Option<Step> {
        loop {
            self.preempt(cpu);
            let Some(current) = self.kernel.cpus[cpu].current else {
                if self.kernel.cpus[cpu].queue.is_empty() {
                    self.kernel.pull(cpu);
                }
                let (_, next) = self.kernel.cpus[cpu].queue.take()?;
                let state = &mut self.kernel.cpus[cpu];
                state.current = Some(next);
                state.turn = Duration::ZERO;
                state.look = false;
                state.doing = Doing::Switch(next);
                return Some(Step::Compute(cx.io().costs.task_switch));
            };
            if current == self.kernel.softirqds[cpu] {
                if let Some(step) = self.next_soft(cx, cpu, false) {
                    self.kernel.cpus[cpu].look = true;
                    return Some(step);
                }
                self.kernel.cpus[cpu].threaded = false;
                self.sleep(cpu, current);
                continue;
            }
            let work = match self.kernel.tasks[current.index()].left {
                Some(left) => left,
                None => {
                    let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu };
                    match self.program.task_begin(&mut kernel, current) {
                        Begin::Work(work) => work,
                        Begin::Nothing => {
                            self.sleep(cpu, current);
                            continue;
                        }
                    }
                }
            };
            // A process loses the vCPU at the end of its turn if others wait.
            let state = &mut self.kernel.cpus[cpu];
            let cut = self.kernel.tasks[current.index()].process && !state.queue.is_empty();
            let turn = state.queue.turn().saturating_sub(state.turn).max(Duration::from_us(1));
            let now = if cut { work.min(turn) } else { work };
            let state = &mut self.kernel.cpus[cpu];
            let to_tick = TICK - Duration::from_ps(cx.now().as_ps() % TICK.as_ps());
            let ticks = !state.raised.is_empty();
            state.tick = ticks.then(|| cx.now() + to_tick);
            let (now, cut) = if ticks && to_tick < now { (to_tick, true) } else { (now, cut) };
            let rest = if work == Duration::MAX && cut { work } else { work - now };
            state.doing = Doing::Task(current, rest);
            return Some(Step::Run(now));
        }
    }

    /// Takes the vCPU away from the current task if another one is to have it.
    fn preempt(&mut self, cpu: usize) {
        let state = &mut self.kernel.cpus[cpu];
        let Some(current) = state.current else { return };
        if !std::mem::take(&mut state.look) {
            return;
        }
        let Some((vtime, _)) = state.queue.first() else { return };
        let task = &self.kernel.tasks[current.index()];
        let in_middle = task.left.is_some() && !task.process;
        let over = state.turn >= state.queue.turn();
        let ahead = task.vtime > vtime + GRANULARITY;
        if !in_middle && (over || ahead) {
            state.queue.insert(current, task.vtime);
            state.current = None;
        }
    }

    fn sleep(&mut self, cpu: usize, task: TaskId) {
        self.kernel.tasks[task.index()].awake = false;
        self.kernel.cpus[cpu].current = None;
    }
}

impl<P: Program> Guest for KernelGuest<P> {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        self.kernel = Kernel::new(cx.vcpus());
        let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu: 0 };
        self.program.start(&mut kernel);
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, cpu: usize) -> Step {
        self.finish_step(cx, cpu);
        if cx.io().asks() {
            // The stack goes on with its answer before anything else is done here.
            return Step::Compute(Duration::ZERO);
        }
        let owed = std::mem::take(&mut self.kernel.cpus[cpu].owed);
        if !owed.is_zero() {
            return Step::Compute(owed);
        }
        if self.softirqs == Softirqs::AfterEach
            && let Some(step) = self.soft_after_irq(cx, cpu)
        {
            return step;
        }
        if let Some(step) = self.next_irq(cx, cpu) {
            return step;
        }
        if let Some(step) = self.soft_after_irq(cx, cpu) {
            return step;
        }
        cx.served();
        self.next_task(cx, cpu).unwrap_or(Step::Block)
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        self.expire(cx, TaskId(token as u16));
    }

    fn request(&mut self, cx: &mut GuestContext<'_>, vcpu: Option<usize>, request: PortRequest) {
        let Some(cpu) = vcpu else {
            match request {
                PortRequest::Send(packet) => {
                    self.unasked.push_back(packet);
                    let own = cx.own();
                    cx.raise(None, own, timer_port(0));
                }
                PortRequest::Process { process, job } => {
                    if let Some(task) = self.program.assign(process, job) {
                        self.expire(cx, task);
                    }
                }
            }
            return;
        };
        let before = self.kernel.cpus[cpu].raised.len();
        let mut kernel = KernelContext { cx, kernel: &mut self.kernel, cpu };
        // The stack is at work here now, and does not put later things before earlier ones.
        for packet in self.unasked.drain(..) {
            self.program.send(&mut kernel, packet);
        }
        match request {
            PortRequest::Send(packet) => self.program.send(&mut kernel, packet),
            PortRequest::Process { process, job } => {
                if let Some(task) = self.program.assign(process, job) {
                    kernel.wake(task);
                }
            }
        }
        // Softirqs that a task has raised run as it enables them again.
        let state = &mut self.kernel.cpus[cpu];
        state.entered |= self.task_asks && state.raised.len() > before;
    }

    fn processes(&self) -> u16 {
        self.program.processes()
    }

    fn outcome(&self) -> Outcome {
        let mut latency = None;
        for delay in self.kernel.tasks.iter().filter_map(|task| task.delay.as_ref()) {
            latency.get_or_insert_with(Hist::new).merge(delay);
        }
        let processes = self.kernel.tasks.iter().filter(|task| task.process);
        let ran = processes.fold(Duration::ZERO, |sum, task| sum + task.ran);
        let mut counters = self.program.counters();
        counters.push(("process_ns", ran.as_ns()));
        Outcome { latency, counters }
    }
}
