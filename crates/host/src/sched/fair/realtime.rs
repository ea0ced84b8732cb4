//! `SCHED_FIFO` and `SCHED_RR`: above all others, by priority.

use super::state::{Alarm, Fair};
use crate::cgroup::Policy;
use crate::cpu_set::CpuSet;
use crate::host_state::HostState;

/// A turn under `SCHED_RR` (`RR_TIMESLICE`), in ns.
const TURN: u64 = 100_000_000;
/// `sched_rt_period_us` and `sched_rt_runtime_us`: in each of the former, on each pCPU, these
/// threads run for the latter at most. In ns.
const PERIOD: u64 = 1_000_000_000;
const RUNTIME: u64 = 950_000_000;

impl Fair {
    /// The priority of a real-time thread, 0 for others.
    pub(super) fn priority(&self, e: usize) -> u8 {
        match self.tasks[e].policy {
            Policy::Fifo(priority) | Policy::Rr(priority) => priority,
            _ => 0,
        }
    }

    pub(super) fn is_realtime(&self, e: usize) -> bool {
        self.priority(e) > 0
    }

    /// Behind those of its priority, or before them.
    fn line_up(&mut self, p: usize, e: usize, first: bool) {
        let priority = self.priority(e);
        let list = &self.cpus[p].realtime;
        let goes_on = |&other: &usize| {
            let theirs = self.priority(other);
            theirs > priority || !first && theirs == priority
        };
        let at = list.iter().position(|other| !goes_on(other)).unwrap_or(list.len());
        self.cpus[p].realtime.insert(at, e);
        self.note_load(p);
    }

    /// The real-time thread `e` wakes, having run on `last`: there if it may interrupt there,
    /// else where the least important runs (`select_task_rq_rt`).
    pub(super) fn wake_realtime(&mut self, host: &mut HostState, e: usize) {
        let (last, allowed) = (host.vcpus[e].processor.index(), *host.vcpus[e].hard());
        let priority = self.priority(e);
        let rank = |p: usize| {
            let head = self.cpus[p].realtime.first().map_or(0, |&head| self.priority(head));
            (head, self.cpus[p].current.is_some() && p != last)
        };
        let p = if rank(last).0 < priority {
            last
        } else {
            allowed.iter().map(|p| p.index()).min_by_key(|&p| rank(p)).unwrap_or(last)
        };
        host.vcpus[e].processor = self.pcpu(p);
        self.line_up(p, e, false);
        self.tasks[e].turn = TURN;
        self.tasks[e].waits = true;
        let current = self.cpus[p].current;
        if current.is_none_or(|current| self.priority(current) < priority) {
            self.reschedule.insert(self.pcpu(p));
        }
    }

    /// `e` runs no more on `p`; it blocks, or goes on waiting: as the first of its priority, or
    /// as the last (it yields, or its turn is over).
    pub(super) fn stop_realtime(&mut self, p: usize, e: usize, blocks: bool, last: bool) {
        self.charge_realtime(p, e);
        let over = self.tasks[e].turn == 0;
        if blocks || last || over {
            self.cpus[p].realtime.retain(|&other| other != e);
            self.note_load(p);
            self.tasks[e].waits = !blocks;
            self.tasks[e].turn = TURN;
            if !blocks {
                self.line_up(p, e, false);
            }
        }
    }

    /// Run time counts against the turn, and against what all of them have on `p`.
    pub(super) fn charge_realtime(&mut self, p: usize, e: usize) {
        let ran = self.now - self.entities[e].exec_start;
        self.entities[e].exec_start = self.now;
        let cpu = &mut self.cpus[p];
        let period = self.now / PERIOD;
        if cpu.realtime_period != period {
            (cpu.realtime_period, cpu.realtime_ran) = (period, 0);
        }
        cpu.realtime_ran += ran;
        if matches!(self.tasks[e].policy, Policy::Rr(_)) {
            self.tasks[e].turn = self.tasks[e].turn.saturating_sub(ran);
        }
    }

    /// The tick of `p`, on which `e` runs.
    pub(super) fn tick_realtime(&mut self, p: usize, e: usize) {
        self.charge_realtime(p, e);
        let priority = self.priority(e);
        let list = self.cpus[p].realtime.iter();
        let equals = list.filter(|&&other| self.priority(other) == priority).count();
        if self.tasks[e].turn == 0 && equals == 1 {
            self.tasks[e].turn = TURN;
        }
        if self.is_spent(p) || self.tasks[e].turn == 0 {
            self.reschedule.insert(self.pcpu(p));
        }
    }

    /// They have had their time on `p` (`rt_throttled`).
    fn is_spent(&self, p: usize) -> bool {
        let cpu = &self.cpus[p];
        cpu.realtime_period == self.now / PERIOD && cpu.realtime_ran >= RUNTIME
    }

    /// The first of them on `p`, if they may run: one of its own, or one that waits elsewhere
    /// and is more important than that (`pull_rt_task`).
    pub(super) fn pick_realtime(&mut self, host: &mut HostState, p: usize) -> Option<usize> {
        if self.is_spent(p) {
            if !self.cpus[p].realtime.is_empty() {
                self.arm(Alarm::Realtime(p), (self.now / PERIOD + 1) * PERIOD);
            }
            return None;
        }
        let own = self.cpus[p].realtime.first().copied();
        let waits = |e: usize| {
            let state = &host.vcpus[e];
            self.tasks[e].waits && !state.running && state.hard().has(self.pcpu(p))
        };
        if self.any_realtime {
            let others = host.pcpus.minus(CpuSet::only(self.pcpu(p))).iter();
            let best = others
                .flat_map(|other| self.cpus[other.index()].realtime.iter().skip(1).copied())
                .filter(|&e| waits(e))
                .max_by_key(|&e| (self.priority(e), std::cmp::Reverse(e)));
            if let Some(e) = best
                && own.is_none_or(|own| self.priority(own) < self.priority(e))
            {
                let from = host.vcpus[e].processor.index();
                self.cpus[from].realtime.retain(|&other| other != e);
                self.note_load(from);
                host.vcpus[e].processor = self.pcpu(p);
                self.line_up(p, e, true);
                return Some(e);
            }
        }
        own
    }
}
