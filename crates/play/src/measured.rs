//! What a run has measured, be it simulated or real.

use lowtail_engine::{Duration, Hist};
use lowtail_host::cgroup::CgroupStats;

/// One run of a scenario.
#[derive(Debug, Clone)]
pub struct Measured {
    /// How long it was measured.
    pub wall: Duration,
    /// The machines, in the order of the configuration.
    pub vms: Vec<VmMeasured>,
    /// The control groups, in the order of the configuration.
    pub groups: Vec<GroupMeasured>,
    /// Processor time that the host's CPUs have spent on other threads, and on interrupts and
    /// time stolen by a hypervisor while a thread ran. `None` if the system does not say, and in
    /// a simulation.
    pub others: Option<Duration>,
}

/// What a machine has got.
#[derive(Debug, Clone)]
pub struct VmMeasured {
    /// Its name.
    pub name: String,
    /// Processor time of each vCPU.
    pub cpu: Vec<Duration>,
    /// What its workload has measured, such as how late it was woken.
    pub latency: Option<Hist>,
}

/// Figures of a control group.
#[derive(Debug, Clone)]
pub struct GroupMeasured {
    /// Its name.
    pub name: String,
    /// What has happened while it was measured; `None` if it has no limit.
    pub stats: Option<CgroupStats>,
}

impl VmMeasured {
    /// Processor time of all its vCPUs in percent of one CPU over `wall`.
    pub fn share_percent(&self, wall: Duration) -> f64 {
        let cpu: f64 = self.cpu.iter().map(|cpu| cpu.as_s_f64()).sum();
        if wall.is_zero() { 0.0 } else { 100.0 * cpu / wall.as_s_f64() }
    }
}

impl Measured {
    /// Adds what another run of the same scenario has measured.
    pub fn merge(&mut self, other: &Measured) {
        self.wall += other.wall;
        self.others = self.others.zip(other.others).map(|(own, other)| own + other);
        for (vm, other) in self.vms.iter_mut().zip(&other.vms) {
            vm.cpu.iter_mut().zip(&other.cpu).for_each(|(cpu, other)| *cpu += *other);
            match (&mut vm.latency, &other.latency) {
                (Some(latency), Some(other)) => latency.merge(other),
                (latency @ None, other) => latency.clone_from(other),
                _ => {}
            }
        }
        for (group, other) in self.groups.iter_mut().zip(&other.groups) {
            if let (Some(stats), Some(other)) = (&mut group.stats, other.stats) {
                *stats += other;
            }
        }
    }
}

/// What has happened from `before` to `after`. The longest pause is not known for a part of a
/// run and is that of all of it.
pub(crate) fn difference(before: CgroupStats, after: CgroupStats) -> CgroupStats {
    CgroupStats {
        periods: after.periods.saturating_sub(before.periods),
        throttled_periods: after.throttled_periods.saturating_sub(before.throttled_periods),
        throttled: after.throttled.saturating_sub(before.throttled),
        bursts: after.bursts.saturating_sub(before.bursts),
        burst: after.burst.saturating_sub(before.burst),
        longest_pause: after.longest_pause,
    }
}
