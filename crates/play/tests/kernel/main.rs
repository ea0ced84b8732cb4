//! Real threads in real control groups. Needs root and the controller `cpu`: without them the
//! tests say so and pass, unless `CI` is set.

mod ends;
mod figures;

use lowtail_testkit::{needs, tries};
use std::path::Path;
use std::sync::MutexGuard;

use lowtail_engine::Duration;
use lowtail_host::cgroup::{CgroupConfig, Limit, Thread};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::{Cgroup, Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_kernel::cgroup::Hierarchy;
use lowtail_kernel::thread::own_cpus;
use lowtail_play::Measured;
use lowtail_play::Options;
use lowtail_play::run;

/// The host, if there is one that can do it. One test at a time has its CPUs.
fn host() -> Option<MutexGuard<'static, ()>> {
    let why = match Hierarchy::find() {
        _ if !needs::is_root() => "not root".to_string(),
        Err(error) => error.to_string(),
        Ok(_) => return Some(needs::turn()),
    };
    needs::skip(Some(&why));
    None
}

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

/// A host whose simulated scheduler does not matter, with as many CPUs as there are, 2 at most.
fn config(vms: Vec<VmConfig>, cgroups: Vec<CgroupConfig>) -> Config {
    let cpus = own_cpus().expect("a set of CPUs").len().min(2) as u16;
    let scheduler = SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612));
    let mut config = Config::new(cpus, scheduler, Costs::FREE, vms);
    config.cgroups = cgroups;
    config
}

/// A machine with `vcpus` vCPUs that compute, all in group number `group`.
fn hogs(name: &str, vcpus: u16, group: u16) -> VmConfig {
    let mut vm = VmConfig::new(name, Workload::CpuLoop);
    vm.vcpus = vcpus;
    vm.threads = vec![Thread { cgroup: Some(Cgroup(group)), ..Thread::default() }];
    vm
}

fn limited(name: &str, parent: Option<u16>, quota: Duration, period: Duration) -> CgroupConfig {
    let limit = Some(Limit { quota, period, burst: Duration::ZERO });
    CgroupConfig { limit, ..CgroupConfig::new(name, parent.map(Cgroup)) }
}

fn shares(name: &str, shares: u64) -> CgroupConfig {
    CgroupConfig { shares, ..CgroupConfig::new(name, None) }
}

fn measure(config: &Config, duration: Duration, state: &Path) -> Measured {
    let mut options = Options::new(duration, 1);
    options.state = state.to_path_buf();
    options.warm_up = ms(200);
    run(config, &options, &|_| {}).expect("the host can do it")
}

/// Control groups that this process has made and that are there, by name.
fn groups() -> Vec<String> {
    groups_of(std::process::id())
}

/// Those of process `pid`, which they are named after; others may run lowtail meanwhile.
fn groups_of(pid: u32) -> Vec<String> {
    let root = Hierarchy::find().expect("there is one").root;
    let names = std::fs::read_dir(root).expect("a directory").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let own = format!("lowtail-{pid}-");
    names.filter(|name| name.starts_with(&own)).collect()
}
