//! A scenario made smaller, for a host with fewer CPUs than it has pCPUs.
//!
//! What is kept is how many vCPUs compete for a pCPU, as far as whole numbers let it: each
//! machine keeps vCPUs in proportion, at least one of each part. A control group's quota
//! goes with the number of threads in it, so that each is allowed as much as before; shares
//! stay, being relative. Groups that no thread is left in are gone. Where something was
//! pinned, it is pinned to the same part of the host.

use lowtail_engine::Duration;
use lowtail_host::cgroup::Thread;
use lowtail_host::{Cgroup, Config, CpuSet, Dom, Pcpu, VmConfig, Workload};

/// The shortest quota that the kernel takes.
const SHORTEST_QUOTA: Duration = Duration::from_ms(1);

/// `config` on a host with `cpus` CPUs; the same if it needs no more.
pub fn scale(config: &Config, cpus: u16) -> Config {
    let mut scaled = config.clone();
    let cpus = cpus.max(1);
    if config.pcpus <= cpus {
        return scaled;
    }
    let host = Host { from: config.pcpus, to: cpus };
    (scaled.pcpus, scaled.topology) = (cpus, None);
    scaled.vms.iter_mut().for_each(|vm| host.vm(vm));
    let (before, after) = (threads(config), threads(&scaled));
    // Where each group is found afterwards.
    let mut places: Vec<Option<Cgroup>> = Vec::new();
    scaled.cgroups.clear();
    for (i, cgroup) in config.cgroups.iter().enumerate() {
        if before[i] > 0 && after[i] == 0 {
            places.push(None);
            continue;
        }
        let mut cgroup = cgroup.clone();
        // What is above a group with threads has threads.
        cgroup.parent = cgroup.parent.and_then(|parent| places[parent.index()]);
        if let Some(limit) = cgroup.limit.as_mut().filter(|_| before[i] > 0) {
            limit.quota = limit.quota.mul_div(after[i], before[i]).max(SHORTEST_QUOTA);
            limit.burst = limit.burst.mul_div(after[i], before[i]).min(limit.quota);
        }
        places.push(Some(Cgroup(scaled.cgroups.len() as u16)));
        scaled.cgroups.push(cgroup);
    }
    for thread in scaled.vms.iter_mut().flat_map(|vm| &mut vm.threads) {
        thread.cgroup = thread.cgroup.and_then(|cgroup| places[cgroup.index()]);
    }
    scaled.watch = scaled.watch.filter(|Dom(dom)| usize::from(*dom) < scaled.vms.len());
    scaled
}

/// From a host of so many pCPUs to one of so many.
struct Host {
    from: u16,
    to: u16,
}

impl Host {
    /// So many of `n` vCPUs: to the nearest, at least one.
    fn vcpus(&self, n: u16) -> u16 {
        let (from, to) = (u32::from(self.from), u32::from(self.to));
        let scaled = (u32::from(n) * to * 2 + from) / (from * 2);
        (scaled as u16).max(1)
    }

    fn set(&self, set: CpuSet) -> CpuSet {
        let on_host = set.and(CpuSet::first_n(self.from)).iter();
        on_host
            .map(|Pcpu(p)| Pcpu((u32::from(p) * u32::from(self.to) / u32::from(self.from)) as u16))
            .collect()
    }

    fn vm(&self, vm: &mut VmConfig) {
        (vm.hard, vm.soft) = (self.set(vm.hard), self.set(vm.soft));
        let threads = all_threads(vm);
        let mut kept = Vec::new();
        let parts = match &mut vm.workload {
            Workload::Mix(parts) => parts.iter_mut().map(|(vcpus, _)| vcpus).collect(),
            _ => vec![&mut vm.vcpus],
        };
        let mut first = 0;
        for vcpus in parts {
            let (before, after) = (usize::from(*vcpus), self.vcpus(*vcpus));
            kept.extend_from_slice(&threads[first..first + usize::from(after).min(before)]);
            first += before;
            *vcpus = after;
        }
        vm.vcpus = kept.len() as u16;
        for thread in &mut kept {
            thread.pin = self.set(thread.pin);
        }
        let most = vm.vcpus.saturating_mul(100);
        vm.cap_percent = vm.cap_percent.min(most);
        vm.threads = if vm.threads.is_empty() { Vec::new() } else { kept };
    }
}

/// The thread of each vCPU.
fn all_threads(vm: &VmConfig) -> Vec<Thread> {
    let of = |i: usize| vm.threads.get(i).or_else(|| vm.threads.last()).copied();
    (0..usize::from(vm.vcpus)).map(|i| of(i).unwrap_or_default()).collect()
}

/// How many threads are in each group and below.
fn threads(config: &Config) -> Vec<u64> {
    let mut counts = vec![0; config.cgroups.len()];
    for thread in config.vms.iter().flat_map(all_threads) {
        let mut group = thread.cgroup;
        while let Some(cgroup) = group {
            counts[cgroup.index()] += 1;
            group = config.cgroups[cgroup.index()].parent;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_host::cgroup::{CgroupConfig, Limit};
    use lowtail_host::{Costs, SchedulerConfig};

    fn ms(n: u64) -> Duration {
        Duration::from_ms(n)
    }

    fn limited(name: &str, parent: Option<u16>, quota: Duration) -> CgroupConfig {
        let limit = Limit { quota, period: ms(100), burst: ms(0) };
        CgroupConfig { limit: Some(limit), ..CgroupConfig::new(name, parent.map(Cgroup)) }
    }

    fn in_group(group: u16) -> Thread {
        Thread { cgroup: Some(Cgroup(group)), ..Thread::default() }
    }

    /// 16 pCPUs with machines of 16 and 2 vCPUs, the latter limited as a whole and each vCPU
    /// for itself; dom0 pinned to the upper half.
    fn config() -> Config {
        let mut big = VmConfig::new("big", Workload::CpuLoop);
        (big.vcpus, big.threads) = (16, vec![in_group(0)]);
        let mut pair = VmConfig::new("pair", Workload::CpuLoop);
        (pair.vcpus, pair.threads) = (2, vec![in_group(2), in_group(3)]);
        let mut upper = VmConfig::new("upper", Workload::CpuLoop);
        upper.hard = (8..16).map(Pcpu).collect();
        let scheduler = SchedulerConfig::SmallFirst(Default::default());
        let mut config = Config::new(16, scheduler, Costs::FREE, vec![big, pair, upper]);
        config.cgroups = vec![
            limited("big", None, ms(800)),
            limited("pair", None, ms(60)),
            limited("pair/0", Some(1), ms(40)),
            limited("pair/1", Some(1), ms(50)),
        ];
        config
    }

    #[test]
    fn vcpus_and_quotas_go_in_proportion() {
        let scaled = scale(&config(), 2);
        scaled.host_state().expect("as good as before");
        let vcpus: Vec<u16> = scaled.vms.iter().map(|vm| vm.vcpus).collect();
        // 16, 2 and 1 of 16 pCPUs on 2: an eighth, but at least one.
        assert_eq!((scaled.pcpus, vcpus), (2, vec![2, 1, 1]));
        let groups: Vec<_> =
            scaled.cgroups.iter().map(|c| (c.name.as_str(), c.limit.unwrap().quota)).collect();
        // 16 threads with 800 ms are 2 with 100; a pair with 60 ms is one with 30; what is
        // for one thread stays, and the group of the vCPU that is gone is gone.
        assert_eq!(groups, [("big", ms(100)), ("pair", ms(30)), ("pair/0", ms(40))]);
        assert_eq!(scaled.cgroups[2].parent, Some(Cgroup(1)));
        assert_eq!(scaled.vms[1].threads[0].cgroup, Some(Cgroup(2)));
        assert_eq!(scaled.vms[2].hard, CpuSet::only(Pcpu(1)));
        assert_eq!(scaled.vms[0].hard, CpuSet::first_n(2));
    }

    #[test]
    fn a_scenario_that_fits_stays() {
        let config = config();
        let same = scale(&config, 16);
        assert_eq!((same.vms.len(), same.pcpus), (3, 16));
        assert_eq!(same.cgroups, config.cgroups);
        assert_eq!(same.vms[0].vcpus, 16);
    }

    /// Each part of a mix keeps a vCPU, and the threads that belong to it.
    #[test]
    fn parts_of_a_mix_all_stay() {
        let mut config = config();
        let mix = Workload::Mix(vec![(15, Workload::CpuLoop), (1, Workload::CpuLoop)]);
        config.vms[0].workload = mix;
        let mut threads = vec![in_group(0); 16];
        threads[15].nice = 7;
        config.vms[0].threads = threads;
        let scaled = scale(&config, 4);
        scaled.host_state().expect("as good as before");
        let nice: Vec<i8> = scaled.vms[0].threads.iter().map(|thread| thread.nice).collect();
        // 15 of 16 on 4: 3.75, so 4, and the one.
        assert_eq!((scaled.vms[0].vcpus, nice), (5, vec![0, 0, 0, 0, 7]));
        assert_eq!(scaled.cgroups[0].limit.unwrap().quota, ms(800 * 5 / 16));
    }
}
