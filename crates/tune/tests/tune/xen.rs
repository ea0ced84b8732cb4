//! Hosts of Xen that are simulated, recorded, tuned by the recording alone, and simulated as the chosen point says.

use lowtail_control::policy::Policy;
use lowtail_engine::Duration;
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_predict::{
    Change, Recording, Setup, predict, recorded_scheduler, set_xen, xen_scheduler,
};
use lowtail_trace::Options as ReadOptions;
use lowtail_tune::{Cost, Options, RecordedProblem, Tuned, tune};

use crate::hosts::sleeper;
use crate::xentrace;

const SPAN: Duration = Duration::from_s(10);

/// A server that sleeps for less than the rate limit, beside a sleeper and a loop, on one pCPU: the trap of credit2 since 4.10.
fn host(scheduler: SchedulerConfig) -> Config {
    let vms = vec![
        VmConfig::new("web", sleeper(700, 60)),
        VmConfig::new("mail", sleeper(6_000, 900)),
        VmConfig::new("batch", Workload::CpuLoop),
    ];
    Config::new(1, scheduler, Costs::FREE, vms)
}

fn read(config: &Config, seed: u64) -> Recording {
    let bytes = xentrace::recorded(config, seed, SPAN);
    let options = ReadOptions { cpu_hz: Some(1_000_000_000), ..ReadOptions::default() };
    let mut recording = Recording::read(&bytes[..], &options).unwrap();
    let names = [("d1", "web"), ("d2", "mail"), ("d3", "batch")];
    recording.rename(&names.map(|(of, name)| (of.to_owned(), name.to_owned()))).unwrap();
    recording
}

fn tuned(recording: &Recording, goal: &str) -> Tuned {
    let as_it_was = Setup::new(recorded_scheduler(&recording.host, None).unwrap());
    let cost = "batch work".parse::<Cost>().unwrap();
    let goals = vec![goal.parse().unwrap()];
    let problem = RecordedProblem::new(recording, as_it_was, goals, Some(cost), false).unwrap();
    let options = Options { budget: Some(60), seeds: 3, threads: 2, ..Options::default() };
    tune(&problem, &options, &|_| {}).unwrap()
}

/// The host as the commands in this policy's comments set it: what they say is read otherwise than the policy is.
fn as_set(mut config: Config, policy: &str) -> Config {
    for line in policy.lines().filter(|line| line.starts_with('#')) {
        if let Some(name) = line.split("sched=").nth(1) {
            let name = name.split(',').next().unwrap();
            config.scheduler = xen_scheduler(name).unwrap();
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |option: &str| -> Option<u64> {
            let at = words.iter().position(|word| *word == option)?;
            words[at + 1].parse().ok()
        };
        let limit = number("-r").map(Duration::from_us);
        let slice = number("-t").map(Duration::from_ms);
        set_xen(&mut config.scheduler, limit, slice).unwrap();
        let Some(at) = words.iter().position(|word| *word == "-d") else { continue };
        let name = words[at + 1].trim_matches('\'');
        let vm = config.vms.iter_mut().find(|vm| vm.name == name).expect("a VM");
        vm.weight = number("-w").map_or(vm.weight, |weight| weight as u16);
        vm.cap_percent = number("-c").map_or(vm.cap_percent, |cap| cap as u16);
    }
    config
}

/// 10 ms at the 99th percentile; the limit is in the way. A host that is simulated as the chosen point's commands say does what was
/// promised, and `predict` says the same of its policy.
#[test]
fn the_limit_is_found_and_its_promise_kept() {
    let scheduler = xen_scheduler("credit2").unwrap();
    let recording = read(&host(scheduler.clone()), 1);
    let tuned = tuned(&recording, "web p99 <= 1ms");
    println!("{}", tuned.table());
    assert!(!tuned.before.reached, "{tuned:#?}");
    let chosen = &tuned.points[tuned.chosen.expect("a point") - 1];
    assert!(
        chosen.reached && Policy::parse("a point", &chosen.policy).is_ok(),
        "{}",
        chosen.policy
    );
    let promised = chosen.figures[0].figure;
    if !chosen.policy.contains("sched=") {
        let policy = Policy::parse("a point", &chosen.policy).unwrap();
        let as_it_was = Setup::new(recorded_scheduler(&recording.host, None).unwrap());
        let change = Change { setup: None, policy: Some(&policy) };
        let predicted = predict(&recording, &as_it_was, &change, 3, false).unwrap();
        let web = predicted.vms.iter().find(|vm| vm.name == "web").unwrap();
        let p99 = web.predicted.unwrap().p99_us.unwrap().median;
        assert!((p99 - promised.median).abs() <= (0.25 * promised.median).max(60.0), "{p99}");
    }
    let truth = read(&as_set(host(scheduler), &chosen.policy), 2);
    let setup = Setup::new(recorded_scheduler(&truth.host, None).unwrap());
    let replay = predict(&truth, &setup, &Change::default(), 1, true).unwrap().replay;
    let web = replay.vms.iter().find(|vm| vm.name == "web").unwrap().recorded;
    let found = web.p99_us.unwrap();
    println!("promised {promised:?}, found {found}");
    assert!(found <= 1.25 * promised.max.max(60.0), "{found} {promised:?}");
    assert!(found <= 1000.0, "{found}");
}

/// The loop alone keeps all the work: where the goal is reached as it is, nothing is changed.
#[test]
fn what_is_reached_is_left_alone() {
    let mut scheduler = xen_scheduler("credit2").unwrap();
    set_xen(&mut scheduler, Some(Duration::ZERO), None).unwrap();
    let tuned = tuned(&read(&host(scheduler), 1), "web p50 <= 1ms");
    assert_eq!(tuned.chosen, Some(0), "{}", tuned.table());
}
