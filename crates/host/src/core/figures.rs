//! What pCPUs have done, and what vCPUs have experienced.

use lowtail_engine::{Duration, Time};

use super::state::Core;
use crate::cgroup::CgroupStats;
use crate::ids::{Cgroup, Pcpu, Vcpu};
use crate::stats::{PcpuStats, VcpuStats, Worst};

impl Core {
    /// What `v` has experienced, up to the last time it lost a pCPU.
    pub(crate) fn vcpu_stats(&self, v: Vcpu) -> &VcpuStats {
        &self.progress[v.index()].stats
    }

    /// Processor time and work of `v` up to now, also of the slice that it is in.
    pub(crate) fn vcpu_time(&self, v: Vcpu) -> (Duration, Duration) {
        let now = self.host.now;
        let progress = &self.progress[v.index()];
        let (mut cpu, mut work) = (progress.stats.cpu, progress.stats.work);
        if self.host.current.contains(&Some(v)) {
            cpu += now.since(progress.began);
        }
        if let Some(since) = progress.executing {
            work += self.done_in(now.since(since), progress).saturating_sub(progress.overhead);
        }
        (cpu, work)
    }

    /// What has happened to `cgroup`.
    pub(crate) fn cgroup_stats(&self, cgroup: Cgroup) -> Option<CgroupStats> {
        self.sched.0.cgroup_stats(&self.host, cgroup)
    }

    /// What `p` has done.
    pub(crate) fn pcpu_stats(&self, p: Pcpu) -> PcpuStats {
        let pcpu = &self.pcpus[p.index()];
        let mut stats = pcpu.stats;
        if self.host.current[p.index()].is_some() {
            stats.busy += self.host.now.since(pcpu.busy_since);
        }
        stats
    }

    /// Keeps the schedule around the longest wait so far.
    pub(super) fn watch(&mut self, woke: Time, wait: Duration) {
        if self.worst.as_ref().is_some_and(|w| w.ran.since(w.woke) >= wait) {
            return;
        }
        // As much again before the wake-up as the wait itself, for the cause.
        let from = Time::from_ps(woke.as_ps().saturating_sub(wait.as_ps() * 2));
        let records = self.recorder.iter().rev().take_while(|r| r.time >= from);
        let mut records: Vec<_> = records.copied().collect();
        records.reverse();
        self.worst = Some(Worst { woke, ran: self.host.now, records });
    }
}
