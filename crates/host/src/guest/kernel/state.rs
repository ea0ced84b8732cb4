//! The state of a kernel: its vCPUs, tasks and tasklets, and what moves them about.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Hist, Time};

use super::fair::{FairQueue, TaskConfig, TaskId};
use super::soft::SoftId;
use crate::io::ports::Port;

/// What a vCPU is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Nothing,
    Irq(Port),
    Soft(SoftId),
    /// Waits for a tasklet that runs elsewhere.
    Spin(SoftId),
    /// Switches to this task.
    Switch(TaskId),
    /// A task, up to this much before the end of its piece of work.
    Task(TaskId, Duration),
}

/// A vCPU of the kernel.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) doing: Doing,
    /// A softirq that was interrupted, and what is left of it.
    pub(super) unfinished: Option<(SoftId, Duration)>,
    pub(super) raised: VecDeque<SoftId>,
    /// Softirqs that may still run before they are left to the thread.
    pub(super) credit: u32,
    /// The softirq thread has work.
    pub(super) threaded: bool,
    pub(super) queue: FairQueue,
    pub(super) current: Option<TaskId>,
    /// Work done in the current task's turn.
    pub(super) turn: Duration,
    /// Set at its start and by each interrupt: others may be more urgent.
    pub(super) look: bool,
    /// A handler has run since softirqs were looked at.
    pub(super) entered: bool,
    /// What it does next, before anything else.
    pub(super) owed: Duration,
    /// When a tick has them looked at.
    pub(super) tick: Option<Time>,
}

/// A thread or process.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) cpu: usize,
    /// A process: can be interrupted by another task anywhere.
    pub(super) process: bool,
    /// May be moved to an idle vCPU when it wakes.
    pub(super) free: bool,
    pub(super) weight: u32,
    /// Work done for itself.
    pub(super) ran: Duration,
    pub(super) awake: bool,
    pub(super) vtime: Duration,
    /// What is left of its piece of work, if it was interrupted in it.
    pub(super) left: Option<Duration>,
    pub(super) woken: Option<Time>,
    /// From waking to running, if that is measured.
    pub(super) delay: Option<Hist>,
}

/// State of a tasklet that can be raised on any vCPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tasklet {
    /// Raised here and not begun.
    pub(super) raised_on: Option<usize>,
    pub(super) running_on: Option<usize>,
}

/// The kernel's own state, apart from the program.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) cpus: Vec<Cpu>,
    pub(super) tasks: Vec<Task>,
    pub(super) tasklets: Vec<Tasklet>,
    /// Tasks whose timers have fired, for each vCPU's timer interrupt.
    pub(super) expired: Vec<Vec<TaskId>>,
    pub(super) softirqds: Vec<TaskId>,
}

impl Kernel {
    pub(super) fn new(cpus: usize) -> Self {
        let cpu = || Cpu {
            doing: Doing::Nothing,
            unfinished: None,
            raised: VecDeque::with_capacity(32),
            credit: 0,
            threaded: false,
            queue: FairQueue::default(),
            current: None,
            turn: Duration::ZERO,
            look: false,
            entered: false,
            owed: Duration::ZERO,
            tick: None,
        };
        let mut kernel = Kernel {
            cpus: (0..cpus).map(|_| cpu()).collect(),
            tasks: Vec::new(),
            tasklets: Vec::new(),
            expired: vec![Vec::with_capacity(16); cpus],
            softirqds: Vec::new(),
        };
        kernel.softirqds = (0..cpus).map(|cpu| kernel.add_task(TaskConfig::thread(cpu))).collect();
        kernel
    }

    pub(super) fn add_task(&mut self, config: TaskConfig) -> TaskId {
        let TaskConfig { cpu, process, free, measured, weight } = config;
        self.tasks.push(Task {
            cpu,
            process,
            free,
            weight,
            ran: Duration::ZERO,
            awake: false,
            vtime: Duration::ZERO,
            left: None,
            woken: None,
            delay: measured.then(Hist::new),
        });
        // Anybody may wait anywhere.
        let tasks = self.tasks.len();
        self.cpus.iter_mut().for_each(|cpu| cpu.queue.make_room(tasks));
        TaskId(tasks as u16 - 1)
    }

    pub(super) fn tasklet(&mut self, soft: SoftId) -> &mut Tasklet {
        let index = usize::from(soft.0);
        if self.tasklets.len() <= index {
            self.tasklets.resize(index + 1, Tasklet::default());
            self.cpus.iter_mut().for_each(|cpu| cpu.raised.reserve(index + 1));
        }
        &mut self.tasklets[index]
    }

    /// Gives `cpu`, which would idle, a task that waits elsewhere, where most wait (Linux's
    /// `newidle_balance`).
    pub(super) fn pull(&mut self, cpu: usize) {
        let free = |task: TaskId| self.tasks[task.index()].free;
        let waiting = |other: &Cpu| other.queue.iter().filter(|&task| free(task)).count();
        let longest = (0..self.cpus.len()).max_by_key(|&other| waiting(&self.cpus[other]));
        let Some(from) = longest.filter(|&from| from != cpu) else { return };
        let Some(task) = self.cpus[from].queue.iter().find(|&task| free(task)) else { return };
        self.cpus[from].queue.remove(task);
        let state = &mut self.tasks[task.index()];
        state.vtime = self.cpus[cpu].queue.moved(&self.cpus[from].queue, state.vtime);
        state.cpu = cpu;
        self.cpus[cpu].queue.insert(task, state.vtime);
    }

    /// Makes `task` runnable. Returns its vCPU, unless it was awake.
    pub(super) fn wake(&mut self, id: TaskId, now: Time) -> Option<usize> {
        let task = &mut self.tasks[id.index()];
        if std::mem::replace(&mut task.awake, true) {
            return None;
        }
        task.woken = Some(now);
        let busy = |cpu: &Cpu| cpu.current.is_some() || !cpu.queue.is_empty();
        if task.free && busy(&self.cpus[task.cpu]) {
            // Linux's select_idle_sibling: an idle one if there is one, else where it was.
            let idle = self.cpus.iter().position(|cpu| cpu.doing == Doing::Nothing && !busy(cpu));
            if let Some(idle) = idle {
                // Virtual times are those of one queue: it takes its distance along.
                task.vtime = self.cpus[idle].queue.moved(&self.cpus[task.cpu].queue, task.vtime);
                task.cpu = idle;
            }
        }
        let cpu = &mut self.cpus[task.cpu];
        task.vtime = cpu.queue.place(task.vtime);
        cpu.queue.insert(id, task.vtime);
        cpu.look = true;
        Some(task.cpu)
    }
}
