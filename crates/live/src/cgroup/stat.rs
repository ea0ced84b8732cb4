//! `cpu.stat`.

use lowtail_engine::Duration;
use lowtail_host::cgroup::CgroupStats;

/// Reads either version: v1 has nanoseconds, v2 has microseconds and says so. What a kernel
/// does not tell is zero; nobody tells the longest pause.
pub(crate) fn parse(text: &str) -> CgroupStats {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    let time = |ns: &str, us: &str| match (value(ns), value(us)) {
        (Some(ns), _) => Duration::from_ns(ns),
        (None, us) => Duration::from_us(us.unwrap_or(0)),
    };
    CgroupStats {
        periods: value("nr_periods").unwrap_or(0),
        throttled_periods: value("nr_throttled").unwrap_or(0),
        throttled: time("throttled_time", "throttled_usec"),
        bursts: value("nr_bursts").unwrap_or(0),
        burst: time("burst_time", "burst_usec"),
        longest_pause: Duration::ZERO,
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
        assert_eq!(stats.throttled, Duration::from_us(1500));
        assert_eq!(parse("nr_periods 1\nnr_throttled 0\nthrottled_time 0\n").burst, Duration::ZERO);
    }
}
