//! Hosts that are simulated, recorded, and predicted from the recording alone: what comes of a change is known, as they can be simulated
//! under it, too. No kernel is needed.

mod common;

use common::recorded as record;
use lowtail_engine::{Distribution, Duration};
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_predict::{Change, Grade, Letter, Recording, Setup, predict};
use lowtail_trace::Options;

const SPAN: Duration = Duration::from_s(20);

fn fair(version: FairVersion) -> SchedulerConfig {
    SchedulerConfig::Fair(FairConfig::new(version))
}

fn small_first() -> SchedulerConfig {
    SchedulerConfig::SmallFirst(SmallFirstConfig::default())
}

/// Two that sleep by chance, one that computes half the time, and one that always does.
fn host(scheduler: SchedulerConfig, pcpus: u16) -> Config {
    let sleeper = |mean: u64, work: u64| {
        let sleep = Distribution::Exponential(Duration::from_us(mean));
        let config = TimerSleeperConfig::new(sleep, u64::MAX >> 1);
        Workload::TimerSleeper(TimerSleeperConfig { work: Duration::from_us(work), ..config })
    };
    let duty = DutyHogConfig {
        burst: Distribution::Exponential(Duration::from_ms(3)),
        sleep: Distribution::Exponential(Duration::from_ms(6)),
        start: None,
    };
    let mut vms = vec![
        VmConfig::new("web", sleeper(3_000, 300)),
        VmConfig::new("mail", sleeper(7_000, 900)),
        VmConfig::new("duty", Workload::DutyHog(duty)),
    ];
    vms.extend((0..pcpus).map(|n| VmConfig::new(&format!("batch{n}"), Workload::CpuLoop)));
    Config::new(pcpus, scheduler, Costs::FREE, vms)
}

fn read(bytes: &[u8]) -> Recording {
    Recording::read(bytes, &Options::default()).unwrap()
}

/// What a VM experienced in a recording: median and 99th percentile of its waits in microseconds, processor time in percent.
fn experience(recording: &Recording, vm: &str) -> [f64; 3] {
    let setup = Setup::new(fair(FairVersion::Linux612));
    let replay = predict(recording, &setup, &Change::default(), 1, true).unwrap().replay;
    let of = replay.vms.iter().find(|of| of.name == vm).unwrap().recorded;
    [of.p50_us.unwrap_or(0.0), of.p99_us.unwrap_or(0.0), of.cpu_percent]
}

/// Within a part of it, or a twentieth of a millisecond.
fn near(expected: f64, found: f64, part: f64) -> bool {
    (expected - found).abs() <= (part * expected).max(50.0)
}

#[test]
fn a_replay_is_what_was_recorded() {
    for pcpus in [1, 2] {
        let recording = read(&record(&host(fair(FairVersion::Linux612), pcpus), SPAN));
        let setup = Setup::new(fair(FairVersion::Linux612));
        let replay = predict(&recording, &setup, &Change::default(), 1, false).unwrap().replay;
        for vm in &replay.vms {
            println!("{pcpus} {vm:?}");
        }
        assert_eq!(Grade::of(&replay).grade, Letter::Good, "{}", Grade::of(&replay));
    }
}

#[test]
fn another_scheduler_does_what_was_predicted() {
    for (pcpus, other) in [
        (1, small_first()),
        (1, fair(FairVersion::Linux61)),
        (1, fair(FairVersion::Linux618)),
        (2, small_first()),
        (2, fair(FairVersion::Linux61)),
    ] {
        let recording = read(&record(&host(fair(FairVersion::Linux612), pcpus), SPAN));
        let as_it_was = Setup::new(fair(FairVersion::Linux612));
        let change = Change { setup: Some(Setup::new(other.clone())), policy: None };
        let predicted = predict(&recording, &as_it_was, &change, 1, false).unwrap();
        let truth = read(&record(&host(other.clone(), pcpus), SPAN));
        for vm in ["web", "mail", "duty"] {
            let [p50, p99, cpu] = experience(&truth, vm);
            let of = predicted.vms.iter().find(|of| of.name == vm).unwrap().predicted.unwrap();
            let (of50, of99) = (of.p50_us.unwrap().median, of.p99_us.map_or(0.0, |p99| p99.median));
            let of_cpu = of.cpu_percent.unwrap().median;
            let all = format!("{pcpus} {vm}: {p50} {p99} {cpu}; {of50} {of99} {of_cpu}; {other:?}");
            println!("{all}");
            assert!(near(p50, of50, 0.15) && near(p99, of99, 0.25), "{all}");
            assert!((cpu - of_cpu).abs() < 2.0, "{all}");
        }
    }
}

#[test]
fn the_same_seeds_predict_the_same() {
    let recording = read(&record(&host(fair(FairVersion::Linux612), 2), SPAN));
    let setup = Setup::new(fair(FairVersion::Linux612));
    let change = Change { setup: Some(Setup::new(small_first())), policy: None };
    let all = || predict(&recording, &setup, &change, 4, true).unwrap();
    assert_eq!(all(), all());
}
