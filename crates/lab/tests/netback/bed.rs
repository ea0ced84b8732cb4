//! Hosts for these tests: one NIC for each guest unless said otherwise, and costs that are
//! nothing unless said otherwise, so that theory needs few terms.

use lowtail_engine::{Duration, Time};
use lowtail_host::guest::driver::DriverConfig;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::{Config, Host, Vcpu};
use lowtail_lab::network::links::{HostFlow, HostLinks, Link, Way};
use lowtail_lab::network::world::World;
use lowtail_net::datagram::Pace;
use lowtail_net::{DatagramFlow, Net, Rate};
pub(crate) use lowtail_testkit::netback::{BACKENDS, costs, dom, driver, guest};

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

/// A NIC and its link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire {
    pub(crate) mbit: u64,
    pub(crate) latency: Duration,
    pub(crate) nic: NicConfig,
}

/// A NIC without moderation, and `mbit` and 20 us of wire.
pub(crate) fn nic(mbit: u64) -> Wire {
    Wire { mbit, latency: us(20), nic: lowtail_testkit::netback::nic() }
}

/// A flow of packets with 1400 bytes of payload, measured after 100 ms.
pub(crate) fn flow(guest: u16, way: Way, pace: Pace) -> HostFlow {
    HostFlow {
        dom: dom(guest),
        way,
        pace,
        payload_bytes: 1400,
        reply_bytes: 56,
        service: us(0),
        requests: u64::MAX,
        warmup: ms(100),
        until: Duration::MAX,
    }
}

/// Bytes on the wire of a packet with 1400 bytes of payload: 28 of headers, 38 of Ethernet.
pub(crate) const WIRE_BYTES: f64 = 1466.0;

/// A host and its links.
#[derive(Debug, Clone)]
pub(crate) struct Bed {
    pub(crate) config: Config,
    pub(crate) links: HostLinks,
}

/// A host whose vCPUs have a pCPU each and switch for nothing.
pub(crate) fn host(
    driver: &DriverConfig,
    dom0_vcpus: u16,
    guests: &[NetGuestConfig],
    wires: Vec<Wire>,
    flows: Vec<HostFlow>,
    costs: PathCosts,
) -> Bed {
    let nics = wires.iter().map(|wire| wire.nic).collect();
    let config = lowtail_testkit::netback::host(driver, dom0_vcpus, guests, nics, costs);
    Bed { config, links: links(&wires, flows) }
}

/// The links of these `wires`, with `flows` on them.
pub(crate) fn links(wires: &[Wire], flows: Vec<HostFlow>) -> HostLinks {
    let link = |wire: &Wire| Link { rate: Rate::from_mbit_s(wire.mbit), latency: wire.latency };
    HostLinks { links: wires.iter().map(link).collect(), names: Vec::new(), flows }
}

impl Bed {
    /// At rest.
    pub(crate) fn world(&self, seed: u64) -> World {
        let mut config = self.config.clone();
        self.links.add_processes(&mut config);
        self.links.world(Host::new(&config, seed).expect("valid"), seed)
    }
}

/// A host and its network after a while.
pub(crate) struct Ran {
    pub(crate) host: Host,
    net: Net,
    end: Time,
    pub(crate) events: u64,
}

/// What has become of `bed` after `span`.
pub(crate) fn run(bed: &Bed, seed: u64, span: Duration) -> Ran {
    let (mut world, end) = (bed.world(seed), Time::ZERO + span);
    while world.step(end) {}
    let events = world.events();
    let (net, mut hosts) = world.into_parts();
    let mut host = hosts.remove(0);
    host.run_to(end);
    Ran { host, net, end, events }
}

impl Ran {
    /// The flows.
    pub(crate) fn flows(&self) -> &[DatagramFlow] {
        self.net.datagrams()
    }

    /// Processor time of a vCPU.
    pub(crate) fn vcpu_time(&self, v: u16) -> Duration {
        self.host.vcpu_time(Vcpu(v)).0
    }
}

/// Payload of each flow in Mbit/s; the run was longer than the warm-up.
pub(crate) fn mbit(ran: &Ran) -> Vec<f64> {
    let rate = ran.flows().iter().map(|flow| {
        let span = ran.end.since(Time::ZERO + flow.config.warmup);
        flow.delivered_bytes() as f64 * 8.0 / span.as_s_f64() / 1e6
    });
    rate.collect()
}

/// Whether `value` is within `percent` of `theory`.
pub(crate) fn near(what: &str, value: f64, theory: f64, percent: f64) {
    let off = (value / theory - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: {value:.3}, by theory {theory:.3}, off by {off:.2} %");
}

/// Runs `property` for each seed, and says how to repeat a failure of `test`. `LOWTAIL_SEED=n` runs
/// one seed only.
pub(crate) fn for_seeds(test: &str, n: u64, property: impl Fn(u64) -> Result<(), String>) {
    let only = std::env::var("LOWTAIL_SEED").ok().and_then(|s| s.parse().ok());
    for seed in only.map_or(0..n, |seed| seed..seed + 1) {
        if let Err(error) = property(seed) {
            panic!(
                "seed {seed}: {error}\nrepeat: LOWTAIL_SEED={seed} cargo test -p lowtail-lab \
                 --test netback {test}"
            );
        }
    }
}
