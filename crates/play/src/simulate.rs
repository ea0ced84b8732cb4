//! The same scenario in the simulator, measured the same way.

use lowtail_engine::{Duration, Hist, Rng, Time};
use lowtail_host::cgroup::{CgroupConfig, CgroupStats, Thread};
use lowtail_host::config::Pause;
use lowtail_host::guest::request_server::RequestServerConfig;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::{Cgroup, Config, Dom, Host, SchedulerConfig, Workload};

use crate::measured::{GroupMeasured, Measured, VmMeasured, difference};
use lowtail_kernel::error::Error;

/// Plays `config` in the simulator for `warm_up`, then measures for `duration`. Latency is that
/// of all wake-ups in that time, however few the scenario asks for.
///
/// # Errors
/// If the configuration contradicts itself.
pub fn simulate(
    config: &Config,
    seed: u64,
    warm_up: Duration,
    duration: Duration,
) -> Result<Measured, Error> {
    let cgroups = config.cgroups.len();
    let mut config = below_one_group(config);
    config.vms.iter_mut().for_each(|vm| endless(&mut vm.workload));
    apart(&mut config, seed, warm_up);
    let machine = Host::new(&config, seed);
    let mut machine = machine.map_err(|error| Error::Scenario(error.to_string()))?;
    machine.run_to(Time::ZERO + warm_up);
    let before = sample(&machine, &config);
    machine.run_to(Time::ZERO + warm_up + duration);
    let after = sample(&machine, &config);
    let vms = config.vms.iter().enumerate().map(|(dom, vm)| {
        let cpu = after.cpu[dom].iter().zip(&before.cpu[dom]);
        VmMeasured {
            name: vm.name.clone(),
            cpu: cpu.map(|(after, before)| after.saturating_sub(*before)).collect(),
            latency: after.latency[dom]
                .as_ref()
                .zip(before.latency[dom].as_ref())
                .map(|(after, before)| after.since(before)),
        }
    });
    let groups = config.cgroups.iter().zip(before.groups.iter().zip(&after.groups));
    let groups = groups.skip(config.cgroups.len() - cgroups);
    let groups = groups.map(|(cgroup, (before, after))| GroupMeasured {
        name: cgroup.name.clone(),
        stats: before.zip(*after).map(|(before, after)| difference(before, after)),
    });
    let (vms, groups) = (vms.collect(), groups.collect());
    Ok(Measured { wall: duration, vms, groups, others: None })
}

/// The groups and threads of `config` in one group, as [`run`](crate::run()) has them on a host whose scheduler knows groups.
fn below_one_group(config: &Config) -> Config {
    let mut config = config.clone();
    if !matches!(config.scheduler, SchedulerConfig::Fair(_)) {
        return config;
    }
    let below = |of: Option<Cgroup>| Some(of.map_or(Cgroup(0), |group| Cgroup(group.0 + 1)));
    config.cgroups.iter_mut().for_each(|group| group.parent = below(group.parent));
    config.cgroups.insert(0, CgroupConfig::new("lowtail", None));
    for vm in &mut config.vms {
        if vm.threads.is_empty() {
            vm.threads.push(Thread::default());
        }
        vm.threads.iter_mut().for_each(|thread| thread.cgroup = below(thread.cgroup));
    }
    config
}

/// Under Xen's schedulers those that compute begin at different moments of the first half of the warm-up. Real guests bring different
/// credits from what they did before; simulated ones that all begin with the same, and run for equal slices, would have equal credits ever
/// after, so that after each reset of credits all of them are ahead of one that wakes.
fn apart(config: &mut Config, seed: u64, warm_up: Duration) {
    if matches!(config.scheduler, SchedulerConfig::Fair(_) | SchedulerConfig::SmallFirst(_)) {
        return;
    }
    let mut rng = Rng::new(seed, "first turns");
    for vm in &mut config.vms {
        let length = Duration::from_ns(rng.below(warm_up.as_ns() / 2 + 1));
        let computes =
            matches!(vm.workload, Workload::CpuLoop | Workload::DutyHog(_) | Workload::Yielder(_));
        if computes && vm.pauses.is_empty() && length > Duration::ZERO {
            vm.pauses.push(Pause { at: Duration::ZERO, length });
        }
    }
}

/// Wake-ups without end: what is measured is a span of time.
fn endless(workload: &mut Workload) {
    match workload {
        Workload::TimerSleeper(TimerSleeperConfig { wakeups, .. }) => *wakeups = u64::MAX,
        Workload::RequestServer(RequestServerConfig { requests, warmup, .. }) => {
            (*requests, *warmup) = (None, 0);
        }
        Workload::Mix(parts) => parts.iter_mut().for_each(|(_, part)| endless(part)),
        _ => {}
    }
}

struct Sample {
    cpu: Vec<Vec<Duration>>,
    latency: Vec<Option<Hist>>,
    groups: Vec<Option<CgroupStats>>,
}

fn sample(machine: &Host, config: &Config) -> Sample {
    let doms = machine.state().doms.iter();
    let cpu = doms.map(|dom| dom.vcpus.iter().map(|&v| machine.vcpu_time(v).0).collect());
    let groups = (0..config.cgroups.len()).map(|g| machine.cgroup_stats(Cgroup(g as u16)));
    let latency = (0..config.vms.len()).map(|dom| machine.outcome(Dom(dom as u16)).latency);
    Sample { cpu: cpu.collect(), latency: latency.collect(), groups: groups.collect() }
}
