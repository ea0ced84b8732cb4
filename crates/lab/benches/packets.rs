//! The way of a packet, in packets per second of wall time: ten NICs of 1 Gbit/s with a flood
//! of 1400 bytes of UDP each, ten guests, a driver domain with ten vCPUs, 100 ms of it.
//!
//! Budget: 1 M packets/s on one core, delivered or dropped, building the host included.

use divan::{Bencher, counter::ItemsCount};
use lowtail_engine::{Duration, Time};
use lowtail_host::guest::driver::Backend;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::{Config, Host};
use lowtail_lab::network::links::{HostFlow, HostLinks, Link, Way};
use lowtail_net::datagram::Pace;
use lowtail_net::{DatagramFlow, Rate};
use lowtail_testkit::netback::{self, dom};

const GUESTS: u16 = 10;

fn main() {
    divan::main();
}

/// The host with `backend`.
fn config(backend: Backend, pace: Pace) -> (Config, HostLinks) {
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
    let flows = (0..GUESTS).map(|i| HostFlow {
        dom: dom(i),
        way: Way::In { nic: i },
        pace,
        payload_bytes: 1400,
        reply_bytes: 56,
        service: Duration::ZERO,
        requests: 0,
        warmup: Duration::ZERO,
        until: Duration::MAX,
    });
    let link = Link { rate: Rate::from_mbit_s(1000), latency: us(20) };
    let links = HostLinks {
        links: vec![link; usize::from(GUESTS)],
        names: Vec::new(),
        flows: flows.collect(),
    };
    let nics = vec![NicConfig { moderation: us(125), ..netback::nic() }; usize::from(GUESTS)];
    let guests = vec![netback::guest(); usize::from(GUESTS)];
    let mut config = netback::host(&netback::driver(backend), GUESTS, &guests, nics, costs);
    links.add_processes(&mut config);
    (config, links)
}

/// Packets of data that have come to an end.
fn run((config, links): &(Config, HostLinks)) -> u64 {
    let mut world = links.world(Host::new(config, 1).expect("valid"), 1);
    let end = Time::ZERO + Duration::from_ms(100);
    world.run(end);
    let ended = |flow: &DatagramFlow| flow.packets_arrived() + flow.packets_lost();
    world.net().datagrams().iter().map(ended).sum()
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
    bench(bencher, Backend::Tasklets, Pace::Open(None));
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
    bench(bencher, Backend::Tasklets, Pace::Window(64));
}
