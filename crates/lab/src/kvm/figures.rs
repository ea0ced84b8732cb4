//! Figures of control groups with limits.

use std::collections::BTreeSet;

use lowtail_engine::{Duration, Time};
use lowtail_host::cgroup::CgroupStats;
use lowtail_host::host_state::HostState;
use lowtail_host::{Cgroup, Host};

use crate::case::spec::{Case, VmKind};
use crate::simulation::Simulation;

/// Of the VMs of a kind; none if nothing limits any of them.
pub(crate) fn of_vms(case: &Case, kind: &VmKind, simulation: &Simulation) -> Vec<(String, f64)> {
    let (mut sum, mut seen, mut error) = (CgroupStats::default(), false, None::<f64>);
    let mut hosts: Vec<usize> = kind.vms.iter().map(|vm| vm.host).collect();
    hosts.dedup();
    for host in hosts {
        let simulated = &simulation.hosts[host];
        let state = simulated.state();
        if state.cgroups.iter().all(|cgroup| cgroup.limit.is_none()) {
            continue;
        }
        let used = CgroupUse::new(simulated);
        let (mut limited, mut nearest) = (BTreeSet::new(), BTreeSet::new());
        for vm in kind.vms.iter().filter(|vm| vm.host == host) {
            for &v in &state.doms[vm.dom.index()].vcpus {
                let cgroup = state.threads[v.index()].cgroup;
                let mut above =
                    upwards(state, cgroup).filter(|&g| state.cgroups[g.index()].limit.is_some());
                if let Some(first) = above.next() {
                    limited.insert(first);
                    limited.extend(above);
                }
            }
            let vcpus = case.hosts[host].threads[vm.dom.index()].vcpus;
            for &v in state.doms[vm.dom.index()].vcpus.iter().take(usize::from(vcpus)) {
                let cgroup = state.threads[v.index()].cgroup;
                nearest.extend(
                    upwards(state, cgroup).find(|&g| state.cgroups[g.index()].limit.is_some()),
                );
            }
        }
        for stats in limited.iter().filter_map(|&cgroup| simulated.cgroup_stats(cgroup)) {
            seen = true;
            sum += stats;
        }
        for &cgroup in &nearest {
            let off = used.error_percent(simulated, cgroup);
            error = Some(error.map_or(off, |known| known.max(off)));
        }
    }
    let name = &kind.name;
    let mut figures = Vec::new();
    if seen {
        let share = match sum.periods {
            0 => 0.0,
            n => sum.throttled_periods as f64 * 100.0 / n as f64,
        };
        figures.extend([
            (format!("periods.{name}"), sum.periods as f64),
            (format!("throttled_periods.{name}"), sum.throttled_periods as f64),
            (format!("throttled_percent.{name}"), share),
            (format!("throttled_ms.{name}"), sum.throttled.as_us_f64() / 1e3),
            (format!("longest_pause_ms.{name}"), sum.longest_pause.as_us_f64() / 1e3),
        ]);
    }
    figures.extend(error.map(|error| (format!("cap_error_percent.{name}"), error)));
    figures
}

/// `cgroup` and those above it, nearest first.
fn upwards(state: &HostState, cgroup: Option<Cgroup>) -> impl Iterator<Item = Cgroup> {
    std::iter::successors(cgroup, |cgroup| state.cgroups[cgroup.index()].parent)
}

/// Run time and number of the threads in and below each control group.
struct CgroupUse {
    time: Vec<Duration>,
    threads: Vec<u64>,
}

impl CgroupUse {
    fn new(host: &Host) -> Self {
        let state = host.state();
        let mut time = vec![Duration::ZERO; state.cgroups.len()];
        let mut threads = vec![0; state.cgroups.len()];
        for dom in &state.doms {
            for &v in &dom.vcpus {
                for cgroup in upwards(state, state.threads[v.index()].cgroup) {
                    time[cgroup.index()] += host.vcpu_time(v).0;
                    threads[cgroup.index()] += 1;
                }
            }
        }
        CgroupUse { time, threads }
    }

    /// How far `cgroup` is from its quota over the whole run, in percent of it. Threads cannot use
    /// more than a pCPU each.
    fn error_percent(&self, host: &Host, cgroup: Cgroup) -> f64 {
        let limit = host.state().cgroups[cgroup.index()].limit;
        let run_s = host.now().since(Time::ZERO).as_s_f64();
        let threads = self.threads[cgroup.index()].min(u64::from(host.state().pcpus.len()));
        let share =
            limit.map_or(f64::INFINITY, |limit| limit.quota.as_s_f64() / limit.period.as_s_f64());
        let due_s = share.min(threads as f64) * run_s;
        if due_s > 0.0 {
            (self.time[cgroup.index()].as_s_f64() / due_s - 1.0).abs() * 100.0
        } else {
            0.0
        }
    }
}
