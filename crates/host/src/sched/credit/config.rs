//! Whose rules, and the parameters of credit.

use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::sched::parameters::scheduler_parameters;
use crate::sched::ratelimit::check_ratelimit;

/// What a millisecond of a pCPU costs.
pub(super) const CREDITS_PER_MS: i64 = 10;

/// Which Xen's rules to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum CreditVersion {
    /// As of late 2007, Xen 3.2: debit by tick sampling.
    #[serde(rename = "2007")]
    Xen2007,
    /// Xen 4.8.
    #[serde(rename = "4.8")]
    Xen48,
    /// Xen as of 2026.
    #[serde(rename = "today")]
    Today,
    /// The same with the patch of patches/xen: what is left of the rate limit is programmed, but no less than 100 us.
    #[serde(rename = "mended")]
    Mended,
}

scheduler_parameters! {
    /// Parameters of the credit scheduler.
    pub struct CreditConfig(CreditVersion);
    /// Parameters of `credit`.
    pub struct CreditKeys;
    {
        /// Time slice, `sched_credit_tslice_ms`: whole milliseconds from 1ms to 1s; default 30ms. Ticks come three times per
        /// slice, or once if it is shorter than 3ms. The Xen of 2007 knows no other slice than the default.
        timeslice: Duration,
        /// Rate limit, `sched_ratelimit_us`: 0us (off) or 100us to 500ms, at most the time slice; default 1000us. Did not exist
        /// in 2007 and is ignored there.
        ratelimit: Duration,
        /// A vCPU that ran less than this long ago is not stolen, `vcpu_migration_delay`: 0us to 100ms; default 0us. Did not
        /// exist in 2007 and is ignored there.
        migration_delay: Duration,
        /// Whether a boosted vCPU may preempt another boosted one: the one line of "Small is Better" (SoCC'13). Not in Xen;
        /// default false. The rate limit still holds.
        boost_preempts_boost: bool,
        /// Whether a vCPU that wakes is boosted: in Xen since 59f9d8ef44 (October 2006); default true. Ongaro, Cox and Rixner
        /// (2007) measured without and with it.
        boost: bool,
        /// Whether the queue is ordered by remaining credits within a priority, most first, instead of first come first served:
        /// an extension by Ongaro, Cox and Rixner. Not in Xen; default false.
        sort_by_credit: bool,
        /// Whether a current vCPU that is outranked is kicked away although no pCPU is idle for it, and its return to the queue
        /// counts as a wake-up, with a boost: Xen before 4.7, where f02a5760c7 (November 2015) and 66c7449a4d (2016) mended the
        /// two halves; default false. In 2007 no vCPU was kicked away, and it is ignored there.
        kick_away_boosts: bool,
    }
}

/// `CSCHED_MIN_TIMER`, as it is meant: `XEN_SYSCTL_SCHED_RATELIMIT_MIN`, 100 us.
pub(super) const MIN_TIMER: Duration = Duration::from_us(100);

impl CreditConfig {
    /// The defaults of `version`.
    pub fn new(version: CreditVersion) -> Self {
        CreditConfig {
            version,
            timeslice: Duration::from_ms(30),
            ratelimit: Duration::from_us(1000),
            migration_delay: Duration::ZERO,
            boost_preempts_boost: false,
            boost: true,
            sort_by_credit: false,
            kick_away_boosts: false,
        }
    }

    /// Refuses what Xen refuses (`csched_sys_cntl`); the text says what would be right.
    pub(crate) fn check(&self) -> Result<(), String> {
        let CreditConfig { timeslice, ratelimit, migration_delay, .. } = *self;
        let whole_ms = timeslice.as_ps().is_multiple_of(Duration::from_ms(1).as_ps());
        if !whole_ms || !(Duration::from_ms(1)..=Duration::from_s(1)).contains(&timeslice) {
            return Err(format!("time slice {timeslice}: Xen accepts whole ms from 1ms to 1s"));
        }
        check_ratelimit(ratelimit)?;
        if ratelimit > timeslice {
            let range = format!("Xen accepts at most the time slice, {timeslice}");
            return Err(format!("rate limit {ratelimit}: {range}"));
        }
        if migration_delay > Duration::from_ms(100) {
            return Err(format!("migration delay {migration_delay}: Xen accepts 0us to 100ms"));
        }
        Ok(())
    }

    /// Ticks per time slice and accounting period (`__csched_set_tslice`).
    pub(super) fn ticks_per_slice(&self) -> u64 {
        if self.timeslice < Duration::from_ms(3) { 1 } else { 3 }
    }

    /// From tick to tick, in whole microseconds as in Xen.
    pub(super) fn tick(&self) -> Duration {
        Duration::from_us(self.timeslice.as_ns() / 1000 / self.ticks_per_slice())
    }

    /// Credits that a pCPU is worth per time slice: 10 per ms.
    pub(super) fn credits_per_slice(&self) -> i64 {
        (self.timeslice.as_ns() / 1_000_000) as i64 * CREDITS_PER_MS
    }
}
