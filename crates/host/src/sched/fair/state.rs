//! What the fair class keeps: pCPUs, threads, groups, and their queues.

use super::balance_state::{BalanceState, LEVELS};
use super::entity::Entity;
use super::loads::{Load, Loads};
use super::pool::Pool;
use super::queue::Queue;
use super::version::{FairConfig, Tunables};
use super::weight::virtual_time;
use crate::cgroup::Policy;
use crate::cpu_set::CpuSet;
use crate::event::SchedTimer;
use crate::ids::{Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::Pass;

/// How a thread comes into a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnqueueReason {
    /// It slept.
    Wake,
    /// It was in another queue.
    Move,
}

/// How a thread goes out of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It sleeps.
    Sleep,
    /// It goes to another pCPU.
    Move,
    /// Its group has run out of its limit.
    Throttle,
}

/// What a pCPU idles for on average before anything is known, and at most: two migration costs.
pub(super) const MEAN_IDLE: u64 = 1_000_000;

/// A pCPU. Times in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Cpu {
    /// Who runs.
    pub(super) current: Option<usize>,
    /// It has a tick ahead.
    pub(super) ticking: bool,
    pub(super) yielded: bool,
    /// Who runs is to go to this pCPU.
    pub(super) push: Option<usize>,
    /// Threads in its queues, also throttled ones: first who was picked longest ago.
    pub(super) threads: Vec<usize>,
    /// Real-time threads, who runs with them, the most important first.
    pub(super) realtime: Vec<usize>,
    pub(super) realtime_period: u64,
    pub(super) realtime_ran: u64,
    /// Since when it idles, if a wake-up is to tell for how long.
    pub(super) idle_since: Option<u64>,
    pub(super) mean_idle: u64,
    /// At each level of balancing.
    pub(super) balance_states: [BalanceState; LEVELS],
}

/// A thread, besides its entity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) policy: Policy,
    /// Left of its turn under `SCHED_RR`, in ns.
    pub(super) turn: u64,
    /// A real-time thread in some queue.
    pub(super) waits: bool,
    /// It is on its way to this pCPU, where it goes on.
    pub(super) pushed: Option<usize>,
    /// It is in no queue, since its group has run out of its limit.
    pub(super) in_limbo: bool,
}

/// A control group; the first is the root.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) above: usize,
    /// Itself, and all groups below it.
    pub(super) below: Vec<usize>,
    pub(super) shares: u64,
    /// Of its queues on all pCPUs.
    pub(super) load: u64,
    pub(super) pool: Option<Pool>,
}

/// The scheduler.
#[derive(Debug)]
pub struct Fair {
    pub(super) config: FairConfig,
    pub(super) tunables: Tunables,
    /// Now, in ns.
    pub(super) now: u64,
    /// How many entities are threads: the first ones, numbered as vCPUs are. Behind them is one
    /// for each queue.
    pub(super) threads: usize,
    pub(super) entities: Vec<Entity>,
    /// Group after group, pCPU after pCPU.
    pub(super) queues: Vec<Queue>,
    pub(super) groups: Vec<Group>,
    pub(super) cpus: Vec<Cpu>,
    /// Of the root's queues.
    pub(super) loads: Loads,
    pub(super) tasks: Vec<Task>,
    pub(super) any_realtime: bool,
    /// pCPUs that are to choose again.
    pub(super) reschedule: CpuSet,
    /// Timers to arm when this call is over, and remarks to leave.
    pub(super) deferred_timers: Vec<(Alarm, u64)>,
    pub(super) deferred_notes: Vec<(Pcpu, Vcpu, Note)>,
    /// Groups that this call has put into their queues or taken out, for the host, too.
    pub(super) moved_groups: u32,
    /// What choosing has met, for the host, too.
    pub(super) pass: Pass,
}

/// A timer of this scheduler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alarm {
    /// A pCPU's tick.
    Tick(usize),
    /// Real-time threads may run again.
    Realtime(usize),
    /// A group's period is over.
    Period(usize),
    /// What a group's pCPUs have given back is shared out.
    Slack(usize),
}

impl Fair {
    /// A host on which nothing has run yet.
    pub fn new(config: FairConfig) -> Self {
        Fair {
            tunables: Tunables::new(&config, 1),
            config,
            now: 0,
            threads: 0,
            entities: Vec::new(),
            queues: Vec::new(),
            groups: Vec::new(),
            cpus: Vec::new(),
            loads: Loads::default(),
            tasks: Vec::new(),
            any_realtime: false,
            reschedule: CpuSet::EMPTY,
            deferred_timers: Vec::new(),
            deferred_notes: Vec::new(),
            moved_groups: 0,
            pass: Pass::default(),
        }
    }

    pub(super) fn pcpu(&self, p: usize) -> Pcpu {
        Pcpu(p as u16)
    }

    pub(super) fn id(&self, alarm: Alarm) -> SchedTimer {
        let (pcpus, groups) = (self.cpus.len(), self.groups.len());
        SchedTimer(match alarm {
            Alarm::Tick(p) => p,
            Alarm::Realtime(p) => pcpus + p,
            Alarm::Period(group) => 2 * pcpus + group,
            Alarm::Slack(group) => 2 * pcpus + groups + group,
        } as u32)
    }

    pub(super) fn alarm(&self, timer: SchedTimer) -> Alarm {
        let (pcpus, groups) = (self.cpus.len(), self.groups.len());
        match timer.0 as usize {
            n if n < pcpus => Alarm::Tick(n),
            n if n < 2 * pcpus => Alarm::Realtime(n - pcpus),
            n if n < 2 * pcpus + groups => Alarm::Period(n - 2 * pcpus),
            n => Alarm::Slack(n - 2 * pcpus - groups),
        }
    }

    pub(super) fn arm(&mut self, alarm: Alarm, at: u64) {
        self.deferred_timers.push((alarm, at));
    }

    /// The thread `e` is in a queue: whoever balances may find it.
    pub(super) fn link_task(&mut self, e: usize) {
        let p = self.queues[self.entities[e].queue].pcpu;
        self.cpus[p].threads.push(e);
    }

    pub(super) fn unlink_task(&mut self, e: usize) {
        let p = self.queues[self.entities[e].queue].pcpu;
        self.cpus[p].threads.retain(|&other| other != e);
    }

    /// Load or threads of `q` have changed, or what runs or waits on its pCPU: balancing sees those of the root's queues.
    pub(super) fn note_load(&mut self, q: usize) {
        let queue = &self.queues[q];
        if queue.group == 0 {
            let cpu = &self.cpus[queue.pcpu];
            let busy = cpu.current.is_some() || queue.runnable > 0 || !cpu.realtime.is_empty();
            let load = Load { load: queue.load, runnable: queue.runnable };
            self.loads.set(queue.pcpu, load, busy);
        }
    }

    pub(super) fn shift(&self) -> u32 {
        self.config.version.weight_shift()
    }

    pub(super) fn eevdf(&self) -> bool {
        self.config.version.is_eevdf()
    }

    /// The entity of the group that `e` is in, if that is not the root.
    pub(super) fn above(&self, e: usize) -> Option<usize> {
        let queue = self.entities[e].queue;
        (self.queues[queue].group != 0).then(|| self.threads + queue)
    }

    pub(super) fn running(&self, q: usize) -> Option<usize> {
        self.queues[q].running(&self.entities)
    }

    pub(super) fn virtually(&self, span: i64, e: usize) -> i64 {
        virtual_time(span, self.entities[e].weight, self.shift())
    }

    pub(super) fn average(&self, q: usize) -> i64 {
        self.queues[q].average(&self.entities, self.shift())
    }

    pub(super) fn eligible(&self, e: usize) -> bool {
        self.queues[self.entities[e].queue].eligible(&self.entities, e, self.shift())
    }
}
