//! Linux' fair class against theory, the kernel's documents and what others have measured.

mod balance;
mod latency;
mod limits;
mod s4;
mod shares;

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_host::cgroup::{CgroupConfig, Limit, Thread};
use lowtail_host::guest::boost_saver::BoostSaverConfig;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::{
    Cgroup, Config, Costs, CpuSet, Host, Pcpu, SchedulerConfig, Topology, Vcpu, VmConfig, Workload,
};

/// All versions by name.
const VERSIONS: [(&str, FairVersion); 7] = [
    ("2.6.39", FairVersion::Linux2639),
    ("4.18", FairVersion::Linux418),
    ("5.4", FairVersion::Linux54),
    ("6.1", FairVersion::Linux61),
    ("6.6", FairVersion::Linux66),
    ("6.12", FairVersion::Linux612),
    ("6.18", FairVersion::Linux618),
];

/// A host without costs, its groups empty.
fn host(pcpus: u16, fair: FairConfig, vms: Vec<VmConfig>) -> Config {
    Config::new(pcpus, SchedulerConfig::Fair(fair), Costs::FREE, vms)
}

/// A VM of CPU loops, whose threads are `threads`.
fn loops(name: &str, vcpus: u16, threads: Vec<Thread>) -> VmConfig {
    VmConfig { vcpus, threads, ..VmConfig::new(name, Workload::CpuLoop) }
}

/// A thread in group number `cgroup`.
fn inside(cgroup: u16) -> Thread {
    Thread { cgroup: Some(Cgroup(cgroup)), ..Thread::default() }
}

/// A limit without burst.
fn limit(quota_ms: u64, period_ms: u64) -> Option<Limit> {
    let (quota, period) = (Duration::from_ms(quota_ms), Duration::from_ms(period_ms));
    Some(Limit { quota, period, burst: Duration::ZERO })
}

/// Processor time of each vCPU from `from` to `to`, in seconds.
fn times(config: &Config, from: Duration, to: Duration) -> (Host, Vec<f64>) {
    let mut host = Host::new(config, 1).expect("valid");
    let vcpus = host.state().vcpus.len() as u16;
    let look = |host: &Host| -> Vec<f64> {
        (0..vcpus).map(|v| host.vcpu_time(Vcpu(v)).0.as_s_f64()).collect()
    };
    host.run_to(Time::ZERO + from);
    let before = look(&host);
    host.run_to(Time::ZERO + to);
    let after = look(&host);
    (host, after.iter().zip(before).map(|(after, before)| after - before).collect())
}

/// A VM of one thread that sleeps and works in turn for ever.
fn sleeper(name: &str, sleep: Duration, work: Duration, thread: Thread) -> VmConfig {
    let (sleep, late_limit) = (Distribution::Fixed(sleep), Duration::from_ms(1));
    let workload = Workload::TimerSleeper(TimerSleeperConfig {
        work,
        late_limit,
        ..TimerSleeperConfig::new(sleep, u64::MAX)
    });
    VmConfig { threads: vec![thread], ..VmConfig::new(name, workload) }
}
