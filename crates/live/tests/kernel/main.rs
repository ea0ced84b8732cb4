//! Real threads in real control groups. Needs root and the controller `cpu`: without them the
//! tests say so and pass, unless `CI` is set.

mod ends;
mod figures;
#[path = "../common/tries.rs"]
#[allow(dead_code, reason = "another test wants more of it")]
mod tries;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lowtail_engine::Duration;
use lowtail_host::cgroup::{CgroupConfig, Limit, Thread};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::{Cgroup, Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_live::cgroup::Hierarchy;
use lowtail_live::thread::own_cpus;
use lowtail_live::{Measured, Options, run};

/// One test at a time has the CPUs.
static HOST: Mutex<()> = Mutex::new(());

/// The host, if there is one that can do it.
fn host() -> Option<MutexGuard<'static, ()>> {
    let root = nix::unistd::geteuid().is_root();
    let why = match Hierarchy::find() {
        _ if !root => "not root".to_string(),
        Err(error) => error.to_string(),
        Ok(_) => return Some(HOST.lock().unwrap_or_else(PoisonError::into_inner)),
    };
    assert!(std::env::var_os("CI").is_none(), "{why}, but in CI nothing may be skipped");
    eprintln!("skipped: {why}");
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

/// Control groups of lowtail that there are, by name.
fn groups() -> Vec<String> {
    let root = Hierarchy::find().expect("there is one").root;
    let names = std::fs::read_dir(root).expect("a directory").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("lowtail-")).collect()
}
