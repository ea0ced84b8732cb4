//! What credit2 keeps, and how credit is burnt.

use lowtail_engine::Time;

use super::budget::Budget;
use super::config::{Credit2Config, Credit2Version};
use super::queue::RunQueue;
use super::unit::{CREDIT_INIT_NS, Unit};
use crate::ids::{Pcpu, Vcpu};
use crate::sched::context::SchedContext;

/// `CSCHED2_CREDIT_MIN` (since 4.10): nobody sinks deeper.
pub(super) const CREDIT_MIN_NS: i64 = -CREDIT_INIT_NS;
/// `CSCHED2_MIN_TIMER`: no slice is shorter.
pub(super) const MIN_TIMER_NS: i64 = 500_000;
/// `CSCHED2_IDLE_CREDIT`: less than anybody's. Since 4.10 just below the floor ...
pub(super) const IDLE_CREDIT_NS: i64 = CREDIT_MIN_NS - 1;
/// ... and before, when there was no floor, far down.
pub(super) const IDLE_CREDIT_481_NS: i64 = -(1 << 30);

/// The credit2 scheduler.
#[derive(Debug)]
pub struct Credit2 {
    pub(super) config: Credit2Config,
    /// Whether pCPUs under the rate limit are left alone, and caps, soft affinity and the
    /// floor under credits exist.
    pub(super) since_410: bool,
    /// Whether a wake-up that the rate limit holds up has the pCPU's timer end with the limit.
    pub(super) mended: bool,
    pub(super) ratelimit_ns: i64,
    pub(super) migrate_resist_ns: i64,
    pub(super) units: Vec<Unit>,
    pub(super) queues: Vec<RunQueue>,
    pub(super) queue_of: Vec<usize>,
    pub(super) budgets: Vec<Budget>,
}

pub(super) fn ns(time: Time) -> i64 {
    time.as_ns() as i64
}

impl Credit2 {
    /// At rest.
    pub fn new(config: Credit2Config) -> Self {
        Credit2 {
            since_410: config.version >= Credit2Version::Xen410,
            mended: config.version == Credit2Version::Mended,
            ratelimit_ns: config.ratelimit.as_ns() as i64,
            migrate_resist_ns: config.migrate_resist.as_ns() as i64,
            units: Vec::new(),
            queues: Vec::new(),
            queue_of: Vec::new(),
            budgets: Vec::new(),
            config,
        }
    }

    pub(super) fn unit(&mut self, v: Vcpu) -> &mut Unit {
        &mut self.units[v.index()]
    }

    pub(super) fn credit(&self, v: Option<Vcpu>) -> i64 {
        let idle = if self.since_410 { IDLE_CREDIT_NS } else { IDLE_CREDIT_481_NS };
        v.map_or(idle, |v| self.units[v.index()].credit)
    }

    /// Tells the host whether `v` may run: two reasons to pause it, one flag.
    pub(super) fn update_paused(&self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let unit = &self.units[v.index()];
        cx.vcpu_mut(v).paused = unit.parked || unit.migrate_to.is_some();
    }

    pub(super) fn has_cap(&self, v: Vcpu) -> bool {
        self.units[v.index()].budget != i64::MAX
    }

    /// `burn_credits` and `t2c_update`: brings the credit of a running vCPU up to date.
    pub(super) fn burn(&mut self, now_ns: i64, v: Vcpu) {
        let max_weight = self.queues[self.units[v.index()].rq].max_weight;
        let floor = self.since_410;
        let unit = self.unit(v);
        let delta = now_ns - unit.start_ns;
        if delta <= 0 {
            return;
        }
        let burnt = delta * max_weight + unit.residual;
        unit.residual = burnt % unit.weight;
        unit.credit -= burnt / unit.weight;
        if floor {
            unit.credit = unit.credit.max(CREDIT_MIN_NS);
        }
        unit.start_ns = now_ns;
        if unit.budget != i64::MAX {
            unit.budget -= delta;
        }
    }

    /// `tickle_cpu`.
    pub(super) fn tickle(&mut self, cx: &mut SchedContext<'_>, p: Pcpu) {
        let rq = self.queue_of[p.index()];
        self.queues[rq].tickled.insert(p);
        cx.tickle(p);
    }
}
