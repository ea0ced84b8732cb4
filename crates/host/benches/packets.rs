//! The way of a packet, in packets per second of wall time: ten NICs of 1 Gbit/s with a flood
//! of 1400 bytes of UDP each, ten guests, a driver domain with ten vCPUs, 100 ms of it.
//!
//! Budget: 1 M packets/s on one core, delivered or dropped, building the host included.

use divan::{Bencher, counter::ItemsCount};
use lowtail_engine::{Duration, Time};
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts};
use lowtail_host::guest::kernel::Rules;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::io::IoConfig;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::flow::{FlowConfig, Pace, Way};
use lowtail_host::io::lock::GrantLock;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::{Config, Costs, Dom, Host, SchedulerConfig, VmConfig, Workload};

const GUESTS: u16 = 10;

fn main() {
    divan::main();
}

/// The host with `backend`.
fn config(backend: Backend, pace: Pace) -> Config {
    let us = Duration::from_us;
    let costs = PathCosts {
        upcall: Duration::from_ns(500),
        irq: us(1),
        notify: Duration::from_ns(700),
        task_switch: us(2),
        nic_packet: Duration::from_ns(2_400),
        back_packet: Duration::from_ns(600),
        grant_slot: us(2),
        front_packet: Duration::from_ns(2_600),
        ..Default::default()
    };
    let driver = DriverConfig {
        backend,
        interrupts: Interrupts::Spread,
        lock: GrantLock::None,
        suppress: true,
        queue_packets: 32,
        rules: Rules::default(),
        users: Vec::new(),
    };
    let net = NetGuestConfig { queues: 1, rules: Rules::default(), computes: false };
    let dom0 = VmConfig::new("dom0", Workload::Driver(driver));
    let mut vms = vec![VmConfig { vcpus: GUESTS, ..dom0 }];
    vms.extend((0..GUESTS).map(|i| VmConfig::new(&format!("guest{i}"), Workload::Net(net))));
    let flows = (0..GUESTS).map(|i| FlowConfig {
        dom: Dom(1 + i),
        way: Way::In { nic: i },
        pace,
        payload_bytes: 1400,
        reply_bytes: 56,
        service: Duration::ZERO,
        requests: 0,
        warmup: Duration::ZERO,
        until: Duration::MAX,
    });
    let nic = NicConfig {
        bits_per_s: 1_000_000_000,
        latency: us(20),
        moderation: us(125),
        ring: 256,
        external: None,
    };
    let nics = vec![nic; usize::from(GUESTS)];
    let io = IoConfig { nics, flows: flows.collect(), costs, ..Default::default() };
    Config { io, ..Config::new(2 * GUESTS, SchedulerConfig::Null, Costs::FREE, vms) }
}

/// Packets of data that have come to an end.
fn run(config: &Config) -> u64 {
    let mut host = Host::new(config, 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_ms(100));
    host.io().flows.iter().map(|flow| flow.packets_arrived() + flow.packets_lost()).sum()
}

fn bench(bencher: Bencher, backend: Backend, pace: Pace) {
    let config = config(backend, pace);
    bencher.counter(ItemsCount::new(run(&config))).bench_local(|| run(&config));
}

#[divan::bench(sample_count = 20)]
fn udp_tasklet(bencher: Bencher) {
    bench(bencher, Backend::Tasklet, Pace::Open(None));
}

#[divan::bench(sample_count = 20)]
fn udp_tasklets(bencher: Bencher) {
    bench(bencher, Backend::Tasklets(0), Pace::Open(None));
}

#[divan::bench(sample_count = 20)]
fn udp_threads(bencher: Bencher) {
    bench(bencher, Backend::Threads, Pace::Open(None));
}

#[divan::bench(sample_count = 20)]
fn udp_small_first(bencher: Bencher) {
    bench(bencher, Backend::SmallFirst, Pace::Open(None));
}

#[divan::bench(sample_count = 20)]
fn streams_tasklets(bencher: Bencher) {
    bench(bencher, Backend::Tasklets(0), Pace::Window(64));
}
