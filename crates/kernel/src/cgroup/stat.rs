//! `cpu.stat`.

use lowtail_engine::Duration;
use lowtail_host::cgroup::CgroupStats;

/// What a group has had since it was made. The kernel sums up the time over all CPUs: on a large host a VM can have
/// more of it within days than the simulator's clock reaches, which is 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// Periods of a limit in which something ran.
    pub periods: u64,
    /// Those in which the limit was reached.
    pub throttled_periods: u64,
    /// Time for which it was throttled, summed up over CPUs, in nanoseconds.
    pub throttled_ns: u64,
    /// Periods in which saved run time was used.
    pub bursts: u64,
    /// Saved run time that was used, in nanoseconds.
    pub burst_ns: u64,
}

/// As the simulator has it, for groups that are ours. Nobody tells the longest pause.
impl From<CpuStat> for CgroupStats {
    fn from(stat: CpuStat) -> Self {
        let span = |ns: u64| Duration::from_ps(ns.saturating_mul(1000));
        CgroupStats {
            periods: stat.periods,
            throttled_periods: stat.throttled_periods,
            throttled: span(stat.throttled_ns),
            bursts: stat.bursts,
            burst: span(stat.burst_ns),
            longest_pause: Duration::ZERO,
        }
    }
}

/// Reads either version: v1 has nanoseconds, v2 has microseconds and says so. What a kernel
/// does not tell is zero.
pub fn parse(text: &str) -> CpuStat {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    let time = |ns: &str, us: &str| match (value(ns), value(us)) {
        (Some(ns), _) => ns,
        (None, us) => us.unwrap_or(0).saturating_mul(1000),
    };
    CpuStat {
        periods: value("nr_periods").unwrap_or(0),
        throttled_periods: value("nr_throttled").unwrap_or(0),
        throttled_ns: time("throttled_time", "throttled_usec"),
        bursts: value("nr_bursts").unwrap_or(0),
        burst_ns: time("burst_time", "burst_usec"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_the_same() {
        let v1 = "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000\nnr_bursts 1\n\
                  burst_time 2000\n";
        let v2 = "usage_usec 9\nuser_usec 9\nsystem_usec 0\nnr_periods 10\nnr_throttled 4\n\
                  throttled_usec 1500\nnr_bursts 1\nburst_usec 2\n";
        let stats = parse(v1);
        assert_eq!(stats, parse(v2));
        assert_eq!((stats.periods, stats.throttled_periods, stats.bursts), (10, 4, 1));
        assert_eq!(stats.throttled_ns, 1_500_000);
        assert_eq!(parse("nr_periods 1\nnr_throttled 0\nthrottled_time 0\n").burst_ns, 0);
    }

    /// Half of 128 CPUs throttled for a week: 448 days of it.
    #[test]
    fn years_of_throttling_are_counted() {
        let us: u64 = 64 * 7 * 86_400 * 1_000_000;
        let stat = parse(&format!("nr_periods 6048000\nthrottled_usec {us}\n"));
        assert_eq!(stat.throttled_ns, us * 1000);
        assert_eq!(CgroupStats::from(stat).throttled, Duration::from_ps(u64::MAX));
        assert_eq!(parse(&format!("throttled_usec {}\n", u64::MAX)).throttled_ns, u64::MAX);
    }
}
