//! A group's pool of run time.

use lowtail_engine::Duration;

use crate::cgroup::{CgroupStats, Limit};

/// A group's limit, and what is left of it (`struct cfs_bandwidth`). Times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) quota: i64,
    pub(super) period: u64,
    pub(super) burst: i64,
    pub(super) runtime: i64,
    /// What there was after the last refill.
    pub(super) refilled: i64,
    /// When the period timer fires next, whether it runs or not.
    pub(super) end: u64,
    /// How many refills there were.
    pub(super) count: u64,
    pub(super) active: bool,
    /// Nothing was fetched in this period.
    pub(super) idle: bool,
    pub(super) slack: bool,
    /// Throttled queues, in the order in which they are served.
    pub(super) throttled: Vec<usize>,
    pub(super) stats: CgroupStats,
}

impl Pool {
    /// A full pool of group number `group` on so many pCPUs.
    pub(super) fn new(limit: &Limit, group: u64, pcpus: usize, in_step: bool) -> Self {
        let (quota, period) = (limit.quota.as_ns() as i64, limit.period.as_ns());
        // The kernel draws the phase at random since 6.3; here it follows from the number, by
        // the golden ratio, which spreads any number of them.
        let phase = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let phase = if in_step { 0 } else { (phase * period) >> 32 };
        Pool {
            quota,
            period,
            burst: limit.burst.as_ns() as i64,
            runtime: quota,
            refilled: quota,
            end: phase,
            count: 0,
            active: false,
            idle: true,
            slack: false,
            throttled: Vec::with_capacity(pcpus),
            stats: CgroupStats::default(),
        }
    }

    /// `__refill_cfs_bandwidth_runtime`: the burst rule of 5.14, which without a burst is the
    /// quota.
    pub(super) fn refill(&mut self) {
        self.runtime += self.quota;
        let beyond = self.refilled - self.runtime;
        if beyond > 0 && self.burst > 0 {
            self.stats.bursts += 1;
            self.stats.burst += Duration::from_ns(beyond as u64);
        }
        self.runtime = self.runtime.min(self.quota + self.burst);
        self.refilled = self.runtime;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sched-bwc.rst`: what is left is carried over, up to the burst; what a period takes
    /// beyond the quota is counted.
    #[test]
    fn a_refill_keeps_up_to_the_burst() {
        let ms = Duration::from_ms;
        let limit = Limit { quota: ms(20), period: ms(100), burst: ms(15) };
        let mut pool = Pool::new(&limit, 1, 1, true);
        let mut after = |used: u64| {
            pool.runtime -= ms(used).as_ns() as i64;
            pool.refill();
            (pool.runtime / 1_000_000, pool.stats.bursts, pool.stats.burst)
        };
        // min(12 + 20, 35), min(32 + 20, 35), min(0 + 20, 35), min(20 - 20 + 20, 35).
        assert_eq!(after(8), (32, 0, ms(0)));
        assert_eq!(after(0), (35, 0, ms(0)));
        assert_eq!(after(35), (20, 1, ms(15)));
        assert_eq!(after(20), (20, 1, ms(15)));
    }
}
