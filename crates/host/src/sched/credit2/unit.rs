//! A vCPU as credit2 sees it.

use crate::ids::Pcpu;

/// `CSCHED2_CREDIT_INIT`: what a reset gives, in ns of the heaviest vCPU's time.
pub(super) const CREDIT_INIT_NS: i64 = 10_000_000;
/// `load_precision_shift`: 2^18 is a load of one vCPU.
pub(super) const PRECISION: u32 = 18;
/// A new vCPU is taken for busy half of the time.
pub(super) const LOAD_START: i64 = 1 << (PRECISION - 1);

/// A vCPU as credit2 sees it: Xen's `struct csched2_unit`.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// ns; burnt while running, the faster the lighter the domain.
    pub(super) credit: i64,
    /// Remainder of the last division by the weight.
    pub(super) residual: i64,
    pub(super) weight: i64,
    /// Up to when `credit` is accounted for.
    pub(super) start_ns: i64,
    /// The run queue that it belongs to.
    pub(super) rq: usize,
    pub(super) on_queue: bool,
    /// Given a pCPU and its context not yet saved.
    pub(super) scheduled: bool,
    /// To be put on the queue once its context is saved.
    pub(super) delayed_add: bool,
    pub(super) yielding: bool,
    /// The pCPU tickled on its behalf.
    pub(super) tickled_cpu: Option<Pcpu>,
    /// Out of budget.
    pub(super) parked: bool,
    /// The run queue that it shall move to once it has left its pCPU.
    pub(super) migrate_to: Option<usize>,
    /// ns of run time left of its quota; `i64::MAX` without a cap.
    pub(super) budget: i64,
    /// ns that it takes from its domain's budget at a time.
    pub(super) quota: i64,
    /// Average runnable share, 2^18 being 1.
    pub(super) avgload: i64,
    pub(super) load_updated: i64,
}

impl Unit {
    pub(super) fn new(weight: i64) -> Self {
        Unit {
            credit: CREDIT_INIT_NS,
            residual: 0,
            weight,
            start_ns: 0,
            rq: 0,
            on_queue: false,
            scheduled: false,
            delayed_add: false,
            yielding: false,
            tickled_cpu: None,
            parked: false,
            migrate_to: None,
            budget: i64::MAX,
            quota: i64::MAX,
            avgload: LOAD_START,
            load_updated: 0,
        }
    }
}
