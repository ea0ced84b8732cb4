//! What an event costs on hosts of 16 to 1,024 pCPUs: three VMs for each, of which a third are servers, a third sleep and work at
//! random, and a third compute.
//!
//! Budget: with 256 pCPUs an event costs 1.3 times what it costs with 16, under each scheduler.

use divan::{Bencher, counter::ItemsCount};
use lowtail_engine::{Duration, Time};
use lowtail_host::guest::Distribution;
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{Config, Costs, Host, SchedulerConfig, Topology, VmConfig, Workload};

/// pCPUs of the hosts.
const HOSTS: [u16; 4] = [16, 64, 256, 1024];
/// pCPUs of a socket.
const SOCKET: u16 = 64;

fn main() {
    divan::main();
}

fn config(scheduler: SchedulerConfig, pcpus: u16) -> Config {
    let (ms, us) = (Duration::from_ms, Duration::from_us);
    let sleeper = TimerSleeperConfig {
        start: Distribution::Exponential(ms(5)),
        sleep: Distribution::Exponential(ms(5)),
        work: us(200),
        wake_work: Duration::ZERO,
        long: None,
        wakeups: u64::MAX,
        late_limit: ms(10),
        late_wait_limit: None,
    };
    let hog = DutyHogConfig {
        burst: Distribution::Exponential(ms(3)),
        sleep: Distribution::Exponential(ms(7)),
        start: None,
    };
    let kinds = [
        ("sleeper", Workload::TimerSleeper(sleeper)),
        ("hog", Workload::DutyHog(hog)),
        ("loop", Workload::CpuLoop),
    ];
    let vms = (0..pcpus).flat_map(|i| {
        kinds.iter().map(move |(name, work)| VmConfig::new(&format!("{name}{i}"), work.clone()))
    });
    let costs = Costs {
        wake_to_tickle: Duration::from_ns(900),
        tickle_to_schedule: Duration::from_ns(3_860),
        tickle_to_schedule_idle: Duration::from_ns(2_100),
        schedule: us(1),
        context_switch: us(2),
        ..Costs::FREE
    };
    let vms = vms.collect();
    let topology = Some(Topology::even(pcpus, pcpus.div_ceil(SOCKET), 1).expect("even sockets"));
    Config { topology, ..Config::new(pcpus, scheduler, costs, vms) }
}

fn host(scheduler: &SchedulerConfig, pcpus: u16) -> Host {
    Host::new(&config(scheduler.clone(), pcpus), 1).expect("valid")
}

/// As many pCPU-seconds on each host.
fn run(mut host: Host, pcpus: u16) -> u64 {
    host.run(Time::ZERO + Duration::from_ms(1_024_000 / u64::from(pcpus)));
    host.events()
}

/// Without what it takes to make the host.
fn bench(bencher: Bencher, scheduler: SchedulerConfig, pcpus: u16) {
    let events = run(host(&scheduler, pcpus), pcpus);
    let bencher = bencher.counter(ItemsCount::new(events));
    bencher.with_inputs(|| host(&scheduler, pcpus)).bench_local_values(|host| run(host, pcpus));
}

#[divan::bench(sample_count = 3, args = HOSTS)]
fn credit_today(bencher: Bencher, pcpus: u16) {
    bench(bencher, SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Today)), pcpus);
}

#[divan::bench(sample_count = 3, args = HOSTS)]
fn credit2(bencher: Bencher, pcpus: u16) {
    bench(bencher, SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen421)), pcpus);
}

#[divan::bench(sample_count = 3, args = HOSTS)]
fn small_first(bencher: Bencher, pcpus: u16) {
    bench(bencher, SchedulerConfig::SmallFirst(SmallFirstConfig::default()), pcpus);
}

#[divan::bench(sample_count = 3, args = HOSTS)]
fn eevdf_6_12(bencher: Bencher, pcpus: u16) {
    bench(bencher, SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612)), pcpus);
}
