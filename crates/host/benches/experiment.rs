//! A whole scheduler experiment, in events per second: the server, the CPU loop and the
//! costs of `experiments/credit2-ratelimit.toml`, 100,000 requests.
//!
//! Budget: 5 M events/s on one core, building the host and the histograms included.

use divan::{Bencher, counter::ItemsCount};
use lowtail_engine::{Duration, Time};
use lowtail_host::guest::Distribution;
use lowtail_host::guest::request_server::{Load, Path, RequestServerConfig};
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{Config, Costs, Host, SchedulerConfig, VmConfig, Workload};

const REQUESTS: u64 = 100_000;

fn main() {
    divan::main();
}

/// The host of the experiment under `scheduler`.
fn config(scheduler: SchedulerConfig) -> Config {
    let us = Duration::from_us;
    let server = RequestServerConfig {
        load: Load::Open(Distribution::Fixed(us(1000))),
        service: Distribution::Fixed(us(8)),
        path: Path {
            fixed: Duration::from_ns(51_300),
            jitter_median: us(5),
            jitter_sigma: 0.3,
            extra_share: 0.03,
            extra_mean: us(4),
        },
        tx_completion: Some(Distribution::Fixed(us(40))),
        client: None,
        network_work: Duration::ZERO,
        after_reply: Distribution::ZERO,
        tx_completion_percent: 100,
        tx_completion_work: us(3),
        requests: Some(REQUESTS),
        warmup: 0,
        half: true,
    };
    let costs = Costs {
        wake_to_tickle: Duration::from_ns(900),
        tickle_to_schedule: Duration::from_ns(3_860),
        tickle_to_schedule_idle: Duration::from_ns(2_100),
        schedule: us(1),
        context_switch: us(5),
        cold_cache: us(11),
        ..Costs::FREE
    };
    let vms = vec![
        VmConfig::new("io", Workload::RequestServer(server)),
        VmConfig::new("cpu", Workload::CpuLoop),
    ];
    Config { records: 4096, ..Config::new(1, scheduler, costs, vms) }
}

fn run(scheduler: SchedulerConfig) -> u64 {
    let mut host = Host::new(&config(scheduler), 1).expect("valid");
    assert!(host.run(Time::ZERO + Duration::from_s(200)), "not all requests answered");
    host.events()
}

fn bench(bencher: Bencher, scheduler: SchedulerConfig) {
    let events = run(scheduler.clone());
    bencher.counter(ItemsCount::new(events)).bench_local(|| run(scheduler.clone()));
}

#[divan::bench(sample_count = 20)]
fn credit2_4_8_1(bencher: Bencher) {
    bench(bencher, SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen481)));
}

#[divan::bench(sample_count = 20)]
fn credit2_ratelimit_0(bencher: Bencher) {
    let mut config = Credit2Config::new(Credit2Version::Xen481);
    config.ratelimit = Duration::ZERO;
    bench(bencher, SchedulerConfig::Credit2(config));
}

#[divan::bench(sample_count = 20)]
fn credit_today(bencher: Bencher) {
    bench(bencher, SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Today)));
}

#[divan::bench(sample_count = 20)]
fn small_first(bencher: Bencher) {
    bench(bencher, SchedulerConfig::SmallFirst(SmallFirstConfig::default()));
}

#[divan::bench(sample_count = 20)]
fn cfs_5_4(bencher: Bencher) {
    bench(bencher, SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux54)));
}

#[divan::bench(sample_count = 20)]
fn eevdf_6_12(bencher: Bencher) {
    bench(bencher, SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612)));
}
