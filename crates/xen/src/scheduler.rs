//! What `xl sched-credit2 -s` and `xl sched-credit -s` say: a line for each pool that has that scheduler.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Rate limits that Xen takes, in microseconds: `XEN_SYSCTL_SCHED_RATELIMIT_MIN` and `_MAX` of `xen/include/public/sysctl.h`. 0 is none.
pub const RATELIMIT_US: RangeInclusive<u32> = 100..=500_000;
/// Slices that credit takes, in milliseconds: `XEN_SYSCTL_CSCHED_TSLICE_MIN` and `_MAX` there.
pub const TIMESLICE_MS: RangeInclusive<u32> = 1..=1_000;
/// Since this release credit2 tickles no pCPU for a vCPU that wakes within the runner's rate limit (`tickle_score` of
/// `xen/common/sched_credit2.c`; docs/findings/credit2-untickled.md).
pub const CREDIT2_UNTICKLED_SINCE: (u32, u32) = (4, 10);

/// A scheduler that has weights, caps and parameters for `xl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// credit.
    Credit,
    /// credit2.
    Credit2,
}

impl Scheduler {
    /// The one that `xl` calls so.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "credit" => Some(Scheduler::Credit),
            "credit2" => Some(Scheduler::Credit2),
            _ => None,
        }
    }

    /// Its command of `xl`.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Scheduler::Credit => "sched-credit",
            Scheduler::Credit2 => "sched-credit2",
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheduler::Credit => "credit",
            Scheduler::Credit2 => "credit2",
        })
    }
}

/// Parameters of the scheduler of a pool, as far as it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerParameters {
    /// For so long nobody preempts a vCPU that has begun to run, in microseconds; 0: no limit.
    pub ratelimit_us: Option<u32>,
    /// For how long a vCPU runs if others wait (credit), in milliseconds.
    pub timeslice_ms: Option<u32>,
    /// For how long a vCPU that has run counts as having its data in the cache (credit), in microseconds.
    pub migration_delay_us: Option<u32>,
}

/// The parameters of each pool: lines such as `Cpupool Pool-0: ratelimit=1000us`.
pub(crate) fn parameters(text: &str) -> BTreeMap<String, SchedulerParameters> {
    let pools = text.lines().filter_map(|line| line.strip_prefix("Cpupool ")?.rsplit_once(':'));
    pools.map(|(pool, values)| (pool.to_string(), values_of(values))).collect()
}

fn values_of(text: &str) -> SchedulerParameters {
    let value = |keys: &[&str], unit: &str| {
        let mut pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
        let (_, value) = pairs.find(|(key, _)| keys.contains(key))?;
        value.strip_suffix(unit)?.parse().ok()
    };
    SchedulerParameters {
        ratelimit_us: value(&["ratelimit"], "us"),
        timeslice_ms: value(&["tslice", "timeslice"], "ms"),
        migration_delay_us: value(&["migration-delay", "migration_delay"], "us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Xen 4.20 of Debian's.
    #[test]
    fn what_credit2_says() {
        let text = include_str!("../data/sched-credit2.txt");
        let pools = parameters(text);
        let limit = SchedulerParameters { ratelimit_us: Some(1000), ..Default::default() };
        assert_eq!(pools.into_iter().collect::<Vec<_>>(), [("Pool-0".to_string(), limit)]);
    }

    /// The form of `xl sched-credit` of Xen 4.20 (xl(1)).
    #[test]
    fn what_credit_says() {
        let text = "Cpupool Pool-0: tslice=30ms ratelimit=1000us migration-delay=0us\n\
                    Cpupool a:b: tslice=-1ms ratelimit=4294967296us\n\
                    Cpupool Pool-1: [sched params unavailable]\n";
        let pools = parameters(text);
        assert_eq!(
            pools["Pool-0"],
            SchedulerParameters {
                ratelimit_us: Some(1000),
                timeslice_ms: Some(30),
                migration_delay_us: Some(0),
            }
        );
        assert_eq!(pools["a:b"], SchedulerParameters::default());
        assert_eq!(pools["Pool-1"], SchedulerParameters::default());
    }
}
