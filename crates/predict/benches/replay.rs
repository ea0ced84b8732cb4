//! How fast a recording is read and run anew.
//!
//! Budget, on one core of a 2020s server: 2 million events of the recording a second for the run, 5 million for reading; a recording of a
//! million events is predicted in less than 2 s.
//!
//! `cargo bench -p lowtail-predict`

#[path = "../tests/common/mod.rs"]
mod common;

use divan::{Bencher, counter::ItemsCount};
use lowtail_engine::{Distribution, Duration};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_predict::{Model, Recording, Setup, recorded_scheduler, replay};
use lowtail_trace::Options;

fn main() {
    divan::main();
}

/// Fifty threads on four CPUs that are two thirds busy, a million events in all.
fn recording() -> Vec<u8> {
    let sleeper = |n: u64| {
        let sleep = Distribution::Exponential(Duration::from_us(400 + 20 * n));
        let config = TimerSleeperConfig::new(sleep, u64::MAX >> 1);
        let work = Duration::from_us(20 + n);
        Workload::TimerSleeper(TimerSleeperConfig { work, ..config })
    };
    let vms = (0..50).map(|n| VmConfig::new(&format!("vm{n}"), sleeper(n))).collect();
    let scheduler = SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612));
    common::recorded(&Config::new(4, scheduler, Costs::FREE, vms), Duration::from_s(7))
}

#[divan::bench]
fn read(bencher: Bencher<'_, '_>) {
    let bytes = recording();
    let events = Recording::read(&bytes[..], &Options::default()).unwrap().events;
    bencher
        .counter(ItemsCount::new(events))
        .bench(|| Recording::read(&bytes[..], &Options::default()).unwrap());
}

#[divan::bench]
fn run(bencher: Bencher<'_, '_>) {
    let recording = Recording::read(&recording()[..], &Options::default()).unwrap();
    let setup = Setup::new(recorded_scheduler(&recording.host, None).unwrap());
    let model = Model::new(&recording, &setup).unwrap();
    bencher
        .counter(ItemsCount::new(recording.events))
        .bench(|| replay(&model, recording.events, 1).unwrap());
}

/// All of a prediction under the recorded scheduler: reading, one run, figures.
#[divan::bench]
fn whole(bencher: Bencher<'_, '_>) {
    let bytes = recording();
    let events = Recording::read(&bytes[..], &Options::default()).unwrap().events;
    bencher.counter(ItemsCount::new(events)).bench(|| {
        let recording = Recording::read(&bytes[..], &Options::default()).unwrap();
        let setup = Setup::new(recorded_scheduler(&recording.host, None).unwrap());
        let model = Model::new(&recording, &setup).unwrap();
        replay(&model, recording.events, 1).unwrap()
    });
}
