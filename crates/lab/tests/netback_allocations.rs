//! No allocation per event: once a host and its links have warmed up, simulating them allocates nothing.

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts, Process};
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::io::lock::GrantLock;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::{Dom, Host};
use lowtail_lab::network::links::{HostFlow, HostLinks, Link, Way};
use lowtail_lab::network::world::World;
use lowtail_net::Rate;
use lowtail_net::datagram::Pace;
use lowtail_testkit::allocations::{self, Counting};
use lowtail_testkit::netback;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Ten guests behind a driver domain with `backend`, and all ways and paces of traffic.
fn traffic(backend: Backend) -> World {
    let us = Duration::from_us;
    let costs = netback::coinciding_costs();
    let driver = DriverConfig {
        interrupts: Interrupts::Balanced,
        grant_lock: GrantLock::PerDomain,
        processes: vec![Process::LOOP, Process::sleeper(us(10_000), us(100))],
        ..netback::driver(backend)
    };
    let guests = [NetGuestConfig { queues: 2, computes: true, ..netback::guest() }; 10];
    let flows = (0..20).map(|i| {
        let (nic, to) = (i % 4, Dom(1 + (i + 1) % 10));
        let (way, pace) = match i {
            0..4 => (Way::In { nic }, Pace::Open(None)),
            4..8 => (Way::In { nic }, Pace::Window(20)),
            8..12 => (Way::Out { nic }, Pace::Window(20)),
            12..16 => (Way::Between { to }, Pace::Window(20)),
            _ => (Way::In { nic }, Pace::Requests(Distribution::Exponential(us(1000)))),
        };
        HostFlow {
            dom: Dom(1 + i % 10),
            way,
            pace,
            payload_bytes: if i % 5 == 4 && i < 16 { 60_000 } else { 1400 },
            reply_bytes: 56,
            service: us(u64::from(i % 2) * 20),
            requests: u64::MAX,
            warmup: us(0),
            until: Duration::MAX,
        }
    });
    let nic = NicConfig { moderation: us(50), ..netback::nic() };
    let link = Link { rate: Rate::from_mbit_s(100), latency: us(20) };
    let links = HostLinks { links: vec![link; 4], names: Vec::new(), flows: flows.collect() };
    let mut config = netback::host(&driver, 3, &guests, vec![nic; 4], costs);
    links.add_processes(&mut config);
    links.world(Host::new(&config, 1).expect("valid"), 1)
}

/// One test, because the counter is one for the whole process.
///
/// On a wire that is overbooked by requests, what has been sent and has not arrived grows without
/// end, and the pool that holds it doubles now and then: a few times in more than a million events.
#[test]
fn a_warm_host_with_links_allocates_nothing() {
    for backend in netback::BACKENDS {
        let mut world = traffic(backend);
        while world.step(Time::ZERO + Duration::from_s(20)) {}
        let (events, before) = (world.events(), allocations::allocations());
        while world.step(Time::ZERO + Duration::from_s(30)) {}
        let allocations = allocations::allocations() - before;
        let events = world.events() - events;
        assert!(events > 50_000, "{backend:?}: only {events} events");
        assert!(allocations <= 8, "{backend:?}: {allocations} allocations in {events} events");
    }
}
