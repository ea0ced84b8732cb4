//! Recordings of simulated hosts.

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::{Config, Costs, Host, SchedulerConfig, VmConfig, Workload};
use lowtail_predict::{Named, Recording, Setup, recorded_scheduler};
use lowtail_trace::{Options, Role};

/// A thread that sleeps by chance and works for so long after that.
pub(crate) fn sleeper(mean_us: u64, work_us: u64) -> Workload {
    let sleep = Distribution::Exponential(Duration::from_us(mean_us));
    let config = TimerSleeperConfig::new(sleep, u64::MAX >> 1);
    Workload::TimerSleeper(TimerSleeperConfig { work: Duration::from_us(work_us), ..config })
}

/// A vCPU of a VM, by name.
pub(crate) type Vcpu = (&'static str, Workload);

/// Runs vCPUs on so many CPUs of a Linux 6.12 for so long, and gives its recording. Those of the same name are one VM.
pub(crate) fn recorded(vcpus: &[Vcpu], pcpus: u16, span: Duration) -> Vec<u8> {
    let configs: Vec<VmConfig> = (0..)
        .zip(vcpus)
        .map(|(n, (_, workload))| VmConfig::new(&format!("vcpu{n}"), workload.clone()))
        .collect();
    let scheduler = SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612));
    let mut config = Config::new(pcpus, scheduler, Costs::FREE, configs);
    config.records = 1 << 14;
    let named = vcpus.iter().enumerate().map(|(at, (name, _))| {
        let index = vcpus[..at].iter().filter(|(other, _)| other == name).count() as u16;
        let role = Role::Vcpu(index);
        Named { comm: format!("CPU {index}/KVM"), vm: Some(((*name).to_owned(), role)) }
    });
    let named: Vec<Named> = named.collect();
    let mut writer =
        lowtail_predict::ScheduleWriter::new(Vec::new(), pcpus, "6.12.0", &named).unwrap();
    let mut host = Host::new(&config, 1).unwrap();
    let end = Time::ZERO + span;
    while host.step(end) {
        host.recorder_mut().drain(|record| writer.record(record).unwrap());
    }
    writer.finish(span.as_ns()).unwrap()
}

/// A server and a pair of vCPUs that meet each other, beside a loop, on one CPU.
pub(crate) fn small() -> Recording {
    let vcpus = [
        ("web", sleeper(3_000, 300)),
        ("pair", sleeper(6_000, 1_000)),
        ("pair", sleeper(6_000, 1_000)),
        ("rare", sleeper(200_000, 300)),
        ("batch", Workload::CpuLoop),
    ];
    read(&recorded(&vcpus, 1, Duration::from_s(10)))
}

/// Fifty threads on four CPUs for 10 s: a server, sleepers, and loops on all of them. Sleepers sleep for `sleep_us` and more.
pub(crate) fn fifty(sleep_us: u64) -> Recording {
    let mut vcpus: Vec<Vcpu> = vec![("web", sleeper(2_000, 200))];
    vcpus.extend((0..41).map(|n| ("mail", sleeper(sleep_us * (20 + n) / 20, 20 + n))));
    vcpus.extend((0..8).map(|_| ("batch", Workload::CpuLoop)));
    assert_eq!(vcpus.len(), 50);
    read(&recorded(&vcpus, 4, Duration::from_s(10)))
}

pub(crate) fn read(bytes: &[u8]) -> Recording {
    Recording::read(bytes, &Options::default()).unwrap()
}

/// The scheduler under which it was recorded.
pub(crate) fn as_it_was(recording: &Recording) -> Setup {
    Setup::new(recorded_scheduler(&recording.host, None).unwrap())
}
