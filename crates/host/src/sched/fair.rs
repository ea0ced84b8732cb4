//! The fair class of Linux, CFS and EEVDF, with its control groups: each vCPU is a thread.
//!
//! A group has a queue on each pCPU (`queue.rs`), and an entity that stands for it in its
//! parent's queue there (`entity.rs`, `tree.rs`). Who is next is looked for from the root down
//! (`choose.rs`): least virtual run time under CFS, earliest virtual deadline of those who are
//! owed something under EEVDF, and now and then a buddy (`buddy.rs`). Limits on run time take
//! queues out of the tree and put them back (`bandwidth.rs`), since 6.18 their threads
//! (`limbo.rs`); `balance.rs` says which pCPU, `realtime.rs` who is above all this. Names of
//! the kernel's functions (`kernel/sched/fair.c`) stand where they are modelled;
//! `docs/explanation/linux-fair.md` says what is not.
//!
//! A slice is noticed to be over at a tick, which a pCPU has while it is busy; wake-ups interrupt
//! at once.

mod balance;
mod balance_state;
mod bandwidth;
mod buddy;
mod check;
mod choose;
mod entity;
mod limbo;
mod loads;
mod pool;
mod queue;
mod realtime;
mod state;
mod tree;
mod version;
mod weight;

use lowtail_engine::{Duration, Time};

use crate::cgroup::{CgroupStats, Policy};
use crate::event::SchedTimer;
use crate::host_state::HostState;
use crate::ids::{Cgroup, Pcpu, Vcpu};
use crate::sched::context::SchedContext;
use crate::sched::scheduler::{Decision, Scheduler};
use balance_state::{BalanceState, LEVELS};
use entity::Entity;
use loads::Loads;
use pool::Pool;
use queue::Queue;
pub use state::Fair;
use state::{Alarm, Cpu, EnqueueReason, Group, Leave, MEAN_IDLE, Task};
use version::Tunables;
pub use version::{CfsKeys, CfsVersion, EevdfKeys, EevdfVersion, FairConfig, FairVersion};

impl Fair {
    /// Lets the host see what this call has led to; `p` is choosing anyway.
    fn apply_deferred(&mut self, cx: &mut SchedContext<'_>, p: Option<Pcpu>) {
        if let Some(p) = p {
            self.reschedule.remove(p);
        }
        if !self.reschedule.is_empty() {
            std::mem::take(&mut self.reschedule).iter().for_each(|p| cx.tickle(p));
        }
        cx.moved_groups(std::mem::take(&mut self.moved_groups));
        for &(alarm, at) in &self.deferred_timers {
            cx.arm(self.id(alarm), Time::ZERO + Duration::from_ns(at));
        }
        self.deferred_timers.clear();
        for (p, v, note) in self.deferred_notes.drain(..) {
            cx.note(p, v, note);
        }
    }

    /// The thread `e` wakes, and is nowhere.
    fn wake_up(&mut self, host: &mut HostState, e: usize) {
        if self.is_realtime(e) {
            return self.wake_realtime(host, e);
        }
        let state = &host.vcpus[e];
        if let Some(p) = self.tasks[e].pushed.take() {
            self.set_pcpu(e, p);
            return self.arrive(host, e, p, EnqueueReason::Move);
        }
        let first = self.entities[e].fresh.then(|| self.pick_first(host, *state.hard())).flatten();
        let p = first.unwrap_or_else(|| self.pick_wake(host, *state.hard(), state.processor));
        self.set_pcpu(e, p);
        if let Some(since) = self.cpus[p].idle_since.take() {
            let mean = &mut self.cpus[p].mean_idle;
            *mean = (*mean - *mean / 8 + (self.now - since) / 8).min(MEAN_IDLE);
        }
        self.arrive(host, e, p, EnqueueReason::Wake);
    }

    /// The thread `e` comes into its queue on pCPU `p`.
    fn arrive(&mut self, host: &mut HostState, e: usize, p: usize, reason: EnqueueReason) {
        host.vcpus[e].processor = self.pcpu(p);
        self.enqueue_task(e, reason);
        self.link_task(e);
        self.check_preempt(p, e);
    }

    /// `e`, which has run on `p`, blocks or has given up its turn.
    fn stop(&mut self, host: &HostState, p: usize, e: usize) {
        let blocks = host.vcpus[e].blocked;
        let yields = std::mem::take(&mut self.cpus[p].yielded);
        let push = self.cpus[p].push.take();
        if self.is_realtime(e) {
            self.stop_realtime(p, e, blocks, yields);
        } else if blocks {
            self.dequeue_task(e, Leave::Sleep);
            if !self.entities[e].delayed {
                self.unlink_task(e);
            }
        } else if let Some(to) = push.filter(|&to| self.can_push(host, e, to)) {
            // It goes on there when its context is saved.
            self.dequeue_task(e, Leave::Move);
            self.unlink_task(e);
            self.tasks[e].pushed = Some(to);
        }
    }

    /// Who runs on `p` next.
    fn choose(&mut self, host: &mut HostState, p: usize, prev: Option<usize>) -> Option<usize> {
        if let Some(e) = self.pick_realtime(host, p) {
            self.put_back(prev, None);
            self.entities[e].exec_start = self.now;
            return Some(e);
        }
        let before = self.queues[p].runnable == 0;
        if before {
            self.balance_newly_idle(host, p);
        }
        let mut next = self.pick_thread(p, prev);
        if next.is_none() && !before && self.config.balance_on_throttle {
            self.balance_newly_idle(host, p);
            next = self.pick_thread(p, None);
        }
        if let Some(e) = next {
            self.unlink_task(e);
            self.link_task(e);
        }
        next
    }

    fn tick(&mut self, host: &mut HostState, p: usize) {
        self.cpus[p].ticking = false;
        let Some(e) = self.cpus[p].current else { return };
        self.keep_ticking(p);
        if self.is_realtime(e) {
            self.tick_realtime(p, e);
        } else {
            self.tick_thread(e);
        }
        self.balance_tick(host, p);
    }

    /// All pCPUs tick at the same instants.
    fn keep_ticking(&mut self, p: usize) {
        if !std::mem::replace(&mut self.cpus[p].ticking, true) {
            let tick = self.tunables.tick;
            self.arm(Alarm::Tick(p), (self.now / tick + 1) * tick);
        }
    }
}

impl Scheduler for Fair {
    fn start(&mut self, cx: &mut SchedContext<'_>) {
        let host = &*cx.host;
        let pcpus = host.current.len();
        self.threads = host.vcpus.len();
        self.tunables = Tunables::new(&self.config, pcpus as u32);
        let shift = self.config.version.weight_shift();
        let root =
            Group { above: 0, below: Vec::new(), shares: weight::NICE_0, load: 0, pool: None };
        let in_step = self.config.periods_in_step;
        self.groups = vec![root];
        self.groups.extend(host.cgroups.iter().enumerate().map(|(i, cgroup)| Group {
            above: cgroup.parent.map_or(0, |parent| parent.index() + 1),
            below: Vec::new(),
            shares: cgroup.shares,
            load: 0,
            pool: cgroup.limit.map(|limit| Pool::new(&limit, i as u64 + 1, pcpus, in_step)),
        }));
        let groups = self.groups.len();
        for group in 1..groups {
            let mut at = group;
            while at != 0 {
                self.groups[at].below.push(group);
                at = self.groups[at].above;
            }
        }
        let group_of = |v: usize| host.threads[v].cgroup.map_or(0, |group| group.index() + 1);
        // Threads and groups that may wait in a queue of each group.
        let mut waiters = vec![0; groups];
        (0..self.threads).for_each(|v| waiters[group_of(v)] += 1);
        self.groups.iter().skip(1).for_each(|below| waiters[below.above] += 1);
        for q in 0..groups * pcpus {
            let (group, p) = (q / pcpus, q % pcpus);
            let mut queue = Queue::new(p, group, waiters[group]);
            queue.limited.on = self.groups[group].pool.is_some();
            self.queues.push(queue);
        }
        self.entities = (0..self.threads)
            .map(|v| {
                let (state, thread) = (&host.vcpus[v], &host.threads[v]);
                let slice = thread.slice.filter(|_| self.config.version >= FairVersion::Linux612);
                Entity {
                    queue: group_of(v) * pcpus + state.processor.index(),
                    weight: weight::of_thread(thread, host.doms[state.dom.index()].weight) << shift,
                    slice: slice.map_or(self.tunables.base_slice, |slice| slice.as_ns() as i64),
                    own_slice: slice.is_some(),
                    idle: thread.policy == Policy::Idle,
                    fresh: true,
                    ..Entity::default()
                }
            })
            .collect();
        self.entities.extend((0..groups * pcpus).map(|q| Entity {
            queue: self.groups[q / pcpus].above * pcpus + q % pcpus,
            my_queue: Some(q),
            weight: self.groups[q / pcpus].shares << shift,
            slice: self.tunables.base_slice,
            ..Entity::default()
        }));
        let cpu = Cpu { mean_idle: MEAN_IDLE, ..Cpu::default() };
        self.cpus = vec![cpu; pcpus];
        for (p, cpu) in self.cpus.iter_mut().enumerate() {
            // Two pCPUs that balance at the same instant undo what the other has done; on a host
            // that has been up for a while they are out of step.
            cpu.balance_states = [BalanceState::from(p as u64 * self.tunables.tick); LEVELS];
            cpu.threads.reserve(self.threads);
            cpu.realtime.reserve(self.threads);
        }
        self.loads = Loads::new(host);
        let task = |v: usize| Task {
            policy: host.threads[v].policy,
            turn: 0,
            waits: false,
            pushed: None,
            in_limbo: false,
        };
        self.tasks = (0..self.threads).map(task).collect();
        self.any_realtime = (0..self.threads).any(|e| self.is_realtime(e));
        self.deferred_timers.reserve(2 * (pcpus + groups));
        self.deferred_notes.reserve(2 * self.threads);
    }

    fn wake(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        self.now = cx.now().as_ns();
        let e = v.index();
        if self.entities[e].queued {
            if self.entities[e].delayed {
                let p = self.queues[self.entities[e].queue].pcpu;
                self.enqueue_task(e, EnqueueReason::Wake);
                self.check_preempt(p, e);
            }
        } else if !cx.vcpu(v).running && !self.tasks[e].waits {
            // One that is on its way out of a pCPU is woken when it has left.
            self.wake_up(cx.host, e);
        }
        self.apply_deferred(cx, None);
    }

    fn yielded(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        self.now = cx.now().as_ns();
        let (e, p) = (v.index(), cx.vcpu(v).processor.index());
        if self.is_realtime(e) {
            self.cpus[p].yielded = true;
        } else {
            self.yield_thread(e);
        }
        self.apply_deferred(cx, None);
    }

    fn schedule(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision {
        self.now = cx.now().as_ns();
        let at = p.index();
        let prev = prev.map(|v| v.index());
        if let Some(e) = prev {
            self.stop(cx.host, at, e);
        }
        let fair = prev.filter(|&e| !self.is_realtime(e));
        let next = self.choose(cx.host, at, fair);
        self.cpus[at].current = next;
        self.note_load(at);
        match next {
            Some(e) => {
                cx.host.vcpus[e].processor = p;
                if !self.is_realtime(e) {
                    self.pass.picked = self.depth(e) as u32 - 1;
                }
                self.cpus[at].idle_since = None;
                self.keep_ticking(at);
            }
            None if prev.is_some() => self.cpus[at].idle_since = Some(self.now),
            None => {}
        }
        cx.pass(std::mem::take(&mut self.pass));
        self.apply_deferred(cx, Some(p));
        Decision { next: next.map(|e| Vcpu(e as u16)), run_for: None }
    }

    fn context_saved(&mut self, cx: &mut SchedContext<'_>, _p: Pcpu, v: Vcpu) {
        let e = v.index();
        let task = &self.tasks[e];
        let waits = self.entities[e].queued || task.waits || task.in_limbo;
        if cx.vcpu(v).runnable() && !waits {
            self.now = cx.now().as_ns();
            self.wake_up(cx.host, e);
            self.apply_deferred(cx, None);
        }
    }

    fn timer(&mut self, cx: &mut SchedContext<'_>, timer: SchedTimer) -> Option<Pcpu> {
        self.now = cx.now().as_ns();
        match self.alarm(timer) {
            Alarm::Tick(p) => self.tick(cx.host, p),
            Alarm::Realtime(p) => {
                self.reschedule.insert(self.pcpu(p));
            }
            Alarm::Period(group) => self.period_over(group),
            Alarm::Slack(group) => self.slack_over(group),
        }
        self.apply_deferred(cx, None);
        None
    }

    fn cgroup_stats(&self, cx: &HostState, cgroup: Cgroup) -> Option<CgroupStats> {
        self.stats_of(cgroup.index() + 1, cx.now)
    }

    fn check(&self, host: &HostState) -> Result<(), String> {
        self.check_books(host)
    }
}
