//! What credit keeps about vCPUs and pCPUs, and its queues.

use lowtail_engine::Time;

use super::config::{CreditConfig, CreditVersion};
use super::shares::Shares;
use crate::cpu_set::CpuSet;
use crate::ids::{Dom, Pcpu, Vcpu};

/// Idle pCPUs have the lowest priority of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    Idle,
    Over,
    Under,
    Boost,
}

/// What the scheduler keeps about a vCPU.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) priority: Priority,
    pub(super) credit: i64,
    /// Run time not charged yet, in units of 100 fs so that a credit is 10^9 of them
    /// (`residual`).
    pub(super) residual: i64,
    /// Up to when it has been charged, in ps; while it does not run, as seen from the
    /// moment when it left, and so mostly within 100 us of zero (`start_time`).
    pub(super) charged_to: i64,
    /// When it was last on a pCPU that entered its scheduler; `None` if never.
    pub(super) last_ran: Option<Time>,
    pub(super) dom: Dom,
    /// Takes part in the accounting.
    pub(super) active: bool,
    /// Waits in its processor's queue.
    pub(super) queued: bool,
    /// Over its cap, and therefore paused.
    pub(super) parked: bool,
    /// Paused until it has left its pCPU, to be given another one (`_VPF_migrating`).
    pub(super) moving: bool,
    /// Given a pCPU anew; its next wake-up is no reason for a boost.
    pub(super) moved: bool,
    /// Has yielded and not been picked since.
    pub(super) yielded: bool,
}

/// What the scheduler keeps about a pCPU.
#[derive(Debug)]
pub(super) struct Runq {
    /// Who waits, in the order in which they will run.
    pub(super) waiting: Vec<Vcpu>,
    /// Accounting period up to which the queue has been sorted.
    pub(super) sorted: u32,
    /// A yielding vCPU was put behind a lower priority since then.
    pub(super) unsorted: bool,
    /// Where to look first among equally good idle pCPUs of this socket.
    pub(super) idle_bias: Pcpu,
    pub(super) last_search: Time,
    /// When it went from idle to busy.
    pub(super) busy_since: Time,
    /// Its tick's timer is set.
    pub(super) ticking: bool,
    pub(super) socket: CpuSet,
}

/// The credit scheduler.
#[derive(Debug)]
pub struct Credit {
    pub(super) config: CreditConfig,
    pub(super) units: Vec<Unit>,
    pub(super) runqs: Vec<Runq>,
    /// pCPUs that idle and, today, have not been tickled since.
    pub(super) idlers: CpuSet,
    /// pCPUs with a vCPU in their queue.
    pub(super) busy_queues: CpuSet,
    pub(super) last_tickled: Pcpu,
    /// By node: the pCPU after which the search for work begins.
    pub(super) search_bias: Vec<Pcpu>,
    /// The node of each pCPU.
    pub(super) node_of: Vec<u16>,
    /// Whether any vCPU has a useful soft affinity.
    pub(super) soft: bool,
    pub(super) shares: Shares,
}

impl Credit {
    /// At rest.
    pub fn new(config: CreditConfig) -> Self {
        let shares = Shares::new(&config);
        Credit {
            config,
            units: Vec::new(),
            runqs: Vec::new(),
            idlers: CpuSet::EMPTY,
            busy_queues: CpuSet::EMPTY,
            last_tickled: Pcpu(0),
            search_bias: Vec::new(),
            node_of: Vec::new(),
            soft: false,
            shares,
        }
    }

    pub(super) fn is(&self, version: CreditVersion) -> bool {
        self.config.version == version
    }

    /// Whether the rules are those of today, mended or not.
    pub(super) fn is_today(&self) -> bool {
        self.is(CreditVersion::Today) || self.is(CreditVersion::Mended)
    }

    pub(super) fn unit(&mut self, v: Vcpu) -> &mut Unit {
        &mut self.units[v.index()]
    }

    pub(super) fn priority(&self, v: Option<Vcpu>) -> Priority {
        v.map_or(Priority::Idle, |v| self.units[v.index()].priority)
    }

    /// Puts `v` into the queue of `p`, behind its equals (`__runq_insert`). One that has
    /// yielded goes behind one lower-priority vCPU, too, if there is one.
    pub(super) fn enqueue(&mut self, p: Pcpu, v: Vcpu) {
        let Unit { priority, yielded, credit, .. } = self.units[v.index()];
        let sorted = self.config.sort_by_credit;
        debug_assert!(!self.units[v.index()].queued);
        let runq = &mut self.runqs[p.index()];
        let lower = |w: &Vcpu| {
            let w = &self.units[w.index()];
            w.priority < priority || sorted && w.priority == priority && w.credit < credit
        };
        let mut at = runq.waiting.iter().position(lower).unwrap_or(runq.waiting.len());
        if yielded && at < runq.waiting.len() {
            at += 1;
            runq.unsorted = true;
        }
        runq.waiting.insert(at, v);
        self.busy_queues.insert(p);
        self.unit(v).queued = true;
    }

    /// Takes the vCPU at position `at` out of the queue of `p` (`__runq_remove`).
    pub(super) fn dequeue(&mut self, p: Pcpu, at: usize) -> Vcpu {
        let waiting = &mut self.runqs[p.index()].waiting;
        let v = waiting.remove(at);
        if waiting.is_empty() {
            self.busy_queues.remove(p);
        }
        let unit = self.unit(v);
        unit.queued = false;
        unit.yielded = false;
        v
    }
}
