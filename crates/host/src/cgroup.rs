//! Control groups of a Linux host, and the threads in them.
//!
//! On a KVM host each vCPU is a thread, and so are QEMU's main loop ("emulator"), its I/O
//! threads and the kernel's vhost workers. libvirt puts them into a tree of control groups, and
//! what the VM may use of the processors is set there. Schedulers that know no groups
//! (Xen's) refuse a configuration whose groups have limits.

use lowtail_engine::Duration;

use crate::cpu_set::CpuSet;
use crate::ids::Cgroup;

/// One control group of the controller `cpu`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupConfig {
    /// Its path below the root, for messages and figures.
    pub name: String,
    /// The group that it is in, listed before it; `None` is the root.
    pub parent: Option<Cgroup>,
    /// Its part of what its parent gets, relative to its siblings: `cpu.shares`, 2 to 262144,
    /// usually 1024. A `cpu.weight` of w is 10.24 w.
    pub shares: u64,
    /// How much its threads may run for, if there is a limit.
    pub limit: Option<Limit>,
}

/// A limit on the run time of a group: `cpu.max` and `cpu.max.burst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Run time in each period, of all threads on all pCPUs together: 1 ms or more.
    pub quota: Duration,
    /// When it is there anew: 1 ms to 1 s.
    pub period: Duration,
    /// Unused run time that is kept for later periods (since Linux 5.14), up to the quota.
    pub burst: Duration,
}

/// A host's thread, as far as the host's scheduler knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// The group that it is in; `None` is the root.
    pub cgroup: Option<Cgroup>,
    /// Its scheduling policy.
    pub policy: Policy,
    /// Its nice value, -20 to 19.
    pub nice: i8,
    /// A slice of its own (`sched_runtime` of `sched_setattr(2)`, since Linux 6.12): 0.1 to
    /// 100 ms.
    pub slice: Option<Duration>,
    /// Where it may run, besides what its VM is pinned to (`vcpupin` and the like).
    pub pin: CpuSet,
}

/// A scheduling policy of Linux, as in `sched(7)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// `SCHED_OTHER`.
    #[default]
    Other,
    /// `SCHED_BATCH`: its wake-ups interrupt nobody.
    Batch,
    /// `SCHED_IDLE`: of the lowest weight there is.
    Idle,
    /// `SCHED_FIFO` with a priority from 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` with a priority from 1 to 99.
    Rr(u8),
}

/// What has happened to a group with a limit: `cpu.stat`, and what that does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupStats {
    /// Periods in which its threads ran or were about to: `nr_periods`.
    pub periods: u64,
    /// Those of them in which it was throttled: `nr_throttled`.
    pub throttled_periods: u64,
    /// Time for which it was throttled, added up over pCPUs: `throttled_time`.
    pub throttled: Duration,
    /// Periods in which it ran on what it had saved: `nr_bursts`.
    pub bursts: u64,
    /// Run time beyond the quota in those: `burst_time`.
    pub burst: Duration,
    /// Longest time for which a thread of it could have run and was throttled.
    pub longest_pause: Duration,
}

impl std::ops::AddAssign for CgroupStats {
    /// What has happened to both; of pauses the longer one.
    fn add_assign(&mut self, other: CgroupStats) {
        self.periods += other.periods;
        self.throttled_periods += other.throttled_periods;
        self.throttled += other.throttled;
        self.bursts += other.bursts;
        self.burst += other.burst;
        self.longest_pause = self.longest_pause.max(other.longest_pause);
    }
}

impl CgroupConfig {
    /// A group with the usual shares and no limit.
    pub fn new(name: &str, parent: Option<Cgroup>) -> Self {
        CgroupConfig { name: name.to_string(), parent, shares: 1024, limit: None }
    }

    /// What is wrong with it, being number `index` of a host's groups.
    pub(crate) fn check(&self, index: usize) -> Result<(), String> {
        let fail = |what: String| Err(format!("cgroup `{}`: {what}", self.name));
        if self.parent.is_some_and(|parent| parent.index() >= index) {
            return fail("its parent has to be listed before it".into());
        }
        if !(2..=262_144).contains(&self.shares) {
            return fail(format!("{} shares; the kernel takes 2 to 262144", self.shares));
        }
        let Some(limit) = self.limit else { return Ok(()) };
        if !(Duration::from_ms(1)..=Duration::from_s(1)).contains(&limit.period) {
            return fail(format!("period {}; the kernel takes 1ms to 1s", limit.period));
        }
        if limit.quota < Duration::from_ms(1) {
            return fail(format!("quota {}; the kernel takes 1ms or more", limit.quota));
        }
        if limit.burst > limit.quota {
            let (burst, quota) = (limit.burst, limit.quota);
            return fail(format!(
                "burst {burst}; the kernel takes no more than the quota, {quota}"
            ));
        }
        Ok(())
    }
}

/// The first group whose limit is above that of a group that it is in, and that one: what a host with cgroup v1 refuses
/// (`tg_cfs_schedulable_down()`, `kernel/sched/core.c`).
pub fn limit_above_parent(groups: &[CgroupConfig]) -> Option<(&CgroupConfig, &CgroupConfig)> {
    groups.iter().find_map(|group| {
        let own = group.limit?;
        let mut above = group.parent;
        loop {
            let parent = &groups[above?.index()];
            let more = |most: Limit| {
                u128::from(own.quota.as_ns()) * u128::from(most.period.as_ns())
                    > u128::from(most.quota.as_ns()) * u128::from(own.period.as_ns())
            };
            if parent.limit.is_some_and(more) {
                return Some((group, parent));
            }
            above = parent.parent;
        }
    })
}

/// Refuses a nice value that the kernel would not take.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn check_nice(nice: i64) -> Result<(), String> {
    if (-20..=19).contains(&nice) {
        return Ok(());
    }
    Err(format!("nice {nice}: the kernel takes -20 to 19"))
}

/// Refuses a slice that the kernel would not take (`sched_setattr(2)`, since Linux 6.12).
///
/// # Errors
/// What is wrong, and what would be right.
pub fn check_slice(slice: Duration) -> Result<(), String> {
    if (Duration::from_us(100)..=Duration::from_ms(100)).contains(&slice) {
        return Ok(());
    }
    Err(format!("slice {slice}: the kernel takes 0.1ms to 100ms"))
}

impl Default for Thread {
    /// In the root, like any other.
    fn default() -> Self {
        Thread {
            cgroup: None,
            policy: Policy::Other,
            nice: 0,
            slice: None,
            pin: CpuSet::first_n(CpuSet::MAX_PCPUS),
        }
    }
}

impl Thread {
    /// What is wrong with it, on a host with so many groups.
    pub(crate) fn check(&self, cgroups: usize) -> Result<(), String> {
        if self.cgroup.is_some_and(|cgroup| cgroup.index() >= cgroups) {
            return Err("a thread in a cgroup that there is not".into());
        }
        check_nice(self.nice.into())?;
        if let Policy::Fifo(priority) | Policy::Rr(priority) = self.policy
            && !(1..=99).contains(&priority)
        {
            return Err(format!("priority {priority}: the kernel takes 1 to 99"));
        }
        self.slice.map_or(Ok(()), check_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By shares of a CPU, through groups without a limit too, and equal is within.
    #[test]
    fn limits_above_those_of_parents() {
        let group = |name: &str, parent: Option<u16>, limit: Option<(u64, u64)>| CgroupConfig {
            limit: limit.map(|(quota_ms, period_ms)| Limit {
                quota: Duration::from_ms(quota_ms),
                period: Duration::from_ms(period_ms),
                burst: Duration::ZERO,
            }),
            ..CgroupConfig::new(name, parent.map(Cgroup))
        };
        let found = |last| {
            let groups = [group("a", None, Some((50, 100))), group("b", Some(0), None), last];
            limit_above_parent(&groups)
                .map(|(group, parent)| (group.name.clone(), parent.name.clone()))
        };
        assert_eq!(found(group("c", Some(1), Some((6, 10)))), Some(("c".into(), "a".into())));
        assert_eq!(found(group("c", Some(1), Some((5, 10)))), None);
        assert_eq!(found(group("c", None, Some((60, 10)))), None);
    }
}
