//! Xen's credit scheduler.

use lowtail_engine::Duration;

use crate::config::check_ratelimit;
use crate::ids::{Pcpu, Vcpu};
use crate::sched::{Decision, SchedTimer, Scheduler, View};

/// Which Xen's rules to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditVersion {
    /// As of late 2007, Xen 3.2: debit by tick sampling.
    Xen2007,
    /// Xen 4.8.
    Xen48,
    /// Xen as of 2026.
    Today,
}

/// Parameters of the credit scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditConfig {
    /// Whose rules.
    pub version: CreditVersion,
    /// Time slice (`sched_credit_tslice_ms`), 1 ms to 1 s, default 30 ms.
    pub timeslice: Duration,
    /// Rate limit (`sched_ratelimit_us`): 0 or 100 us to 500 ms, at most the time
    /// slice; default 1000 us. Did not exist in 2007 and is ignored there.
    pub ratelimit: Duration,
    /// A vCPU that ran less than this long ago is not stolen (`vcpu_migration_delay`),
    /// default 0.
    pub migration_delay: Duration,
    /// Whether a boosted vCPU may preempt another boosted one: the one line of "Small is
    /// Better" (SoCC'13). Not in Xen; default false.
    pub boost_preempts_boost: bool,
}

impl CreditConfig {
    /// The defaults of `version`.
    pub fn new(version: CreditVersion) -> Self {
        CreditConfig {
            version,
            timeslice: Duration::from_ms(30),
            ratelimit: Duration::from_us(1000),
            migration_delay: Duration::ZERO,
            boost_preempts_boost: false,
        }
    }

    /// Refuses what Xen refuses; the text says what would be right.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_ratelimit(self.ratelimit)
    }
}

/// The credit scheduler.
#[derive(Debug)]
pub struct Credit {
    config: CreditConfig,
}

impl Credit {
    /// At rest.
    pub fn new(config: CreditConfig) -> Self {
        Credit { config }
    }
}

impl Scheduler for Credit {
    fn start(&mut self, _view: &mut View<'_>) {
        let _ = &self.config;
        todo!()
    }
    fn wake(&mut self, _view: &mut View<'_>, _v: Vcpu) {
        todo!()
    }
    fn yielded(&mut self, _view: &mut View<'_>, _v: Vcpu) {
        todo!()
    }
    fn schedule(&mut self, _view: &mut View<'_>, _p: Pcpu, _prev: Option<Vcpu>) -> Decision {
        todo!()
    }
    fn context_saved(&mut self, _view: &mut View<'_>, _p: Pcpu, _v: Vcpu) {
        todo!()
    }
    fn timer(&mut self, _view: &mut View<'_>, _timer: SchedTimer) {
        todo!()
    }
}
