//! Whose rules, and their tunables.

use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::sched::parameters::scheduler_parameters;

/// Whose fair class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FairVersion {
    /// CFS of Linux 2.6.39 with the patches of 2011 that gave it bandwidth limits (released in
    /// 3.2).
    Linux2639,
    /// CFS of Linux 4.18: run time that a pCPU has fetched and not used really expires
    /// (512ac999d275).
    Linux418,
    /// CFS of Linux 5.4: it does not expire any more (de53fd7aedb1).
    Linux54,
    /// CFS of Linux 6.1, as 5.13 to 6.5 have it: turns follow from all threads of the pCPU, and none is shorter than the least
    /// granularity (0c2de3f054a5).
    Linux61,
    /// EEVDF of Linux 6.6.
    Linux66,
    /// EEVDF of Linux 6.12: slices of a thread's own, delayed dequeue, short slices interrupt. Of later 6.12.y
    /// also that a group goes on when a thread of it sleeps, and that who yields forfeits its slice.
    Linux612,
    /// EEVDF of Linux 6.18: who runs is left alone for the shortest slice of its queue at most, and is looked at again whenever its run
    /// time is brought up to date after that; limits take threads out one by one.
    Linux618,
}

impl FairVersion {
    /// Whether who has the earliest virtual deadline runs, not who has the least virtual run time.
    pub fn is_eevdf(self) -> bool {
        self >= FairVersion::Linux66
    }

    /// Weights have 10 more bits (on by default for 64 bits since 4.7, 2159197d6677).
    pub(super) fn weight_shift(self) -> u32 {
        if self == FairVersion::Linux2639 { 0 } else { 10 }
    }
}

/// Whose CFS.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub enum CfsVersion {
    /// Linux 2.6.39 with the patches of 2011 for bandwidth limits.
    #[serde(rename = "2.6.39")]
    Linux2639,
    /// Linux 4.18.
    #[serde(rename = "4.18")]
    Linux418,
    /// Linux 5.4.
    #[serde(rename = "5.4")]
    Linux54,
    /// Linux 6.1.
    #[serde(rename = "6.1")]
    Linux61,
}

impl From<CfsVersion> for FairVersion {
    fn from(version: CfsVersion) -> Self {
        match version {
            CfsVersion::Linux2639 => FairVersion::Linux2639,
            CfsVersion::Linux418 => FairVersion::Linux418,
            CfsVersion::Linux54 => FairVersion::Linux54,
            CfsVersion::Linux61 => FairVersion::Linux61,
        }
    }
}

/// Whose EEVDF.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub enum EevdfVersion {
    /// Linux 6.6.
    #[serde(rename = "6.6")]
    Linux66,
    /// Linux 6.12.
    #[serde(rename = "6.12")]
    Linux612,
    /// Linux 6.18.
    #[serde(rename = "6.18")]
    Linux618,
}

impl From<EevdfVersion> for FairVersion {
    fn from(version: EevdfVersion) -> Self {
        match version {
            EevdfVersion::Linux66 => FairVersion::Linux66,
            EevdfVersion::Linux612 => FairVersion::Linux612,
            EevdfVersion::Linux618 => FairVersion::Linux618,
        }
    }
}

scheduler_parameters! {
    /// Parameters of the fair class.
    pub struct FairConfig(FairVersion);
    /// Parameters of `cfs`.
    pub struct CfsKeys(CfsVersion);
    /// Parameters of `eevdf`.
    pub struct EevdfKeys(EevdfVersion);
    both {
        /// Ticks per second, `CONFIG_HZ`; default 250, of 2.6.39 1000. All pCPUs tick at the same instants, unless they idle.
        #[schemars(range(min = 100, max = 1000))]
        hz: u32,
        /// Run time that a pCPU fetches from a group's pool at a time, `sched_cfs_bandwidth_slice_us`: 1us to 1s; default 5ms.
        bandwidth_slice: Duration,
        /// Whether run time that was fetched in one period and not used is lost in the next; default true up to 4.18, false
        /// since.
        expire_slices: bool,
        /// Whether a pCPU that has nothing to do because its groups are throttled looks for work at once; default true, false
        /// for 2.6.39. Linux did not before 3.15 (38033c37faab): `schedule` balanced an idle pCPU before `put_prev_task`, where
        /// throttling was done.
        balance_on_throttle: bool,
        /// Whether the tick of a busy pCPU has work brought to idle ones (`nohz_idle_balance`); default true, false for 2.6.39.
        /// Up to 3.2 the idle pCPU that was to do it gave up if it had been busy at its last tick, which it usually had, as idle
        /// ones do not tick (`run_rebalance_domains` with `idle_at_tick`; mended by "sched: Request for idle balance during
        /// nohz idle load balance").
        balance_idle: bool,
        /// Whether the period timers of all groups run in step; default true before 6.3 (41abdba93747), false since.
        periods_in_step: bool,
    }
    first {
        /// In how long each of a few runnable threads has its turn, `sched_latency_ns`: 100us to 1s; default 6ms. Before scaling,
        /// as the next two: the kernel multiplies them by 1 + log2(pCPUs), at most 4.
        latency: Duration,
        /// How long a turn is at least, `sched_min_granularity_ns`: 100us to 1s; default 750us.
        min_granularity: Duration,
        /// By how much virtual run time a waking thread must be behind to interrupt, `sched_wakeup_granularity_ns`: up to 1s;
        /// default 1ms.
        wakeup_granularity: Duration,
    }
    second {
        /// Length of a turn, `base_slice_ns`: 100us to 1s; default 750us, 700us of 6.18 (2ae891b82695). Before scaling: the kernel multiplies it by
        /// 1 + log2(pCPUs), at most 4.
        base_slice: Duration,
        /// Whether the running thread is left alone up to its deadline, or while it is owed something (`RUN_TO_PARITY`); default
        /// true.
        run_to_parity: bool,
        /// Whether a thread that sleeps while it owes something stays in the queue until it does not (`DELAY_DEQUEUE`); default
        /// true since 6.12.
        delay_dequeue: bool,
        /// Whether a thread with a shorter slice interrupts in spite of `run_to_parity` (`PREEMPT_SHORT`); default true since
        /// 6.12.
        preempt_short: bool,
    }
}

impl FairConfig {
    /// The defaults of `version`.
    pub fn new(version: FairVersion) -> Self {
        let late = version >= FairVersion::Linux612;
        FairConfig {
            version,
            hz: if version == FairVersion::Linux2639 { 1000 } else { 250 },
            latency: Duration::from_us(6_000),
            min_granularity: Duration::from_us(750),
            wakeup_granularity: Duration::from_us(1_000),
            base_slice: Duration::from_us(if version < FairVersion::Linux618 { 750 } else { 700 }),
            run_to_parity: true,
            delay_dequeue: late,
            preempt_short: late,
            bandwidth_slice: Duration::from_ms(5),
            expire_slices: version <= FairVersion::Linux418,
            balance_on_throttle: version > FairVersion::Linux2639,
            balance_idle: version > FairVersion::Linux2639,
            periods_in_step: version < FairVersion::Linux66,
        }
    }

    /// Refuses what the kernel refuses, or what makes no sense.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(100..=1000).contains(&self.hz) {
            return Err(format!("hz {}: 100 to 1000", self.hz));
        }
        let spans = [
            ("latency", self.latency),
            ("min granularity", self.min_granularity),
            ("base slice", self.base_slice),
        ];
        let range = Duration::from_us(100)..=Duration::from_s(1);
        for (name, span) in spans {
            if !range.contains(&span) {
                return Err(format!("{name} {span}: the kernel takes 100us to 1s"));
            }
        }
        if self.wakeup_granularity > Duration::from_s(1) {
            let span = self.wakeup_granularity;
            return Err(format!("wakeup granularity {span}: the kernel takes up to 1s"));
        }
        let range = Duration::from_us(1)..=Duration::from_s(1);
        if !range.contains(&self.bandwidth_slice) {
            return Err(format!("bandwidth slice {}: 1us to 1s", self.bandwidth_slice));
        }
        Ok(())
    }
}

/// The numbers that decisions are made with, in nanoseconds and scaled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunables {
    pub(super) tick: u64,
    pub(super) latency: i64,
    pub(super) min_granularity: i64,
    pub(super) wakeup_granularity: i64,
    pub(super) base_slice: i64,
}

impl Tunables {
    /// `get_update_sysctl_factor`: multiplied by 1 + log2(pCPUs), of which 8 count at most.
    pub(super) fn new(config: &FairConfig, pcpus: u32) -> Self {
        let factor = i64::from(1 + pcpus.clamp(1, 8).ilog2());
        let scaled = |span: Duration| span.as_ns() as i64 * factor;
        Tunables {
            tick: 1_000_000_000 / u64::from(config.hz.max(1)),
            latency: scaled(config.latency),
            min_granularity: scaled(config.min_granularity),
            wakeup_granularity: scaled(config.wakeup_granularity),
            base_slice: scaled(config.base_slice),
        }
    }
}
