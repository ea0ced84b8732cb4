//! Hosts for these tests: one NIC for each guest unless said otherwise, and costs that are
//! nothing unless said otherwise, so that theory needs few terms.

use lowtail_engine::{Duration, Time};
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts};
use lowtail_host::guest::kernel::Rules;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::io::IoConfig;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::flow::{FlowConfig, Pace, Way};
use lowtail_host::io::lock::GrantLock;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::io::ports::Order;
use lowtail_host::{Config, Costs, Dom, Host, SchedulerConfig, VmConfig, Workload};

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

/// Costs of a few microseconds each.
pub(crate) fn costs() -> PathCosts {
    PathCosts {
        upcall: us(1),
        irq: us(1),
        notify: us(1),
        task_switch: us(2),
        nic_packet: us(2),
        back_packet: us(3),
        grant_slot: us(2),
        front_packet: us(1),
        ..Default::default()
    }
}

/// All back ends.
pub(crate) const BACKENDS: [Backend; 6] = [
    Backend::Tasklet,
    Backend::Tasklets(0),
    Backend::Tasklets(2),
    Backend::Threads,
    Backend::Napi,
    Backend::SmallFirst,
];

/// A driver domain without locks, drops late, interrupts spread.
pub(crate) fn driver(backend: Backend) -> DriverConfig {
    DriverConfig {
        backend,
        interrupts: Interrupts::Spread,
        lock: GrantLock::None,
        suppress: true,
        queue_packets: 32,
        rules: Rules::default(),
        users: Vec::new(),
    }
}

/// A guest with one queue.
pub(crate) fn guest() -> NetGuestConfig {
    NetGuestConfig { queues: 1, rules: Rules::default(), computes: false }
}

/// A NIC with `mbit` and 20 us of wire, without moderation.
pub(crate) fn nic(mbit: u64) -> NicConfig {
    NicConfig {
        bits_per_s: mbit * 1_000_000,
        latency: us(20),
        moderation: us(0),
        ring: 256,
        external: None,
    }
}

/// A flow of packets with 1400 bytes of payload, measured after 100 ms.
pub(crate) fn flow(guest: u16, way: Way, pace: Pace) -> FlowConfig {
    FlowConfig {
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

/// The domain of guest number `guest`; the driver domain is number 0.
pub(crate) fn dom(guest: u16) -> Dom {
    Dom(1 + guest)
}

/// A host whose vCPUs have a pCPU each and switch for nothing.
pub(crate) fn host(
    driver: &DriverConfig,
    dom0_vcpus: u16,
    guests: &[NetGuestConfig],
    nics: Vec<NicConfig>,
    flows: Vec<FlowConfig>,
    costs: PathCosts,
) -> Config {
    let dom0 = Workload::Driver(driver.clone());
    let mut vms = vec![VmConfig { vcpus: dom0_vcpus, ..VmConfig::new("dom0", dom0) }];
    let guests = guests.iter().enumerate();
    vms.extend(guests.map(|(i, &net)| VmConfig::new(&format!("guest{i}"), Workload::Net(net))));
    let pcpus = vms.iter().map(|vm| vm.vcpus).sum();
    let io = IoConfig { nics, flows, order: Order::Fifo, costs };
    Config { io, ..Config::new(pcpus, SchedulerConfig::Null, Costs::FREE, vms) }
}

/// The machine after `span`.
pub(crate) fn run(config: &Config, seed: u64, span: Duration) -> Host {
    let mut machine = Host::new(config, seed).expect("valid");
    machine.run_to(Time::ZERO + span);
    machine
}

/// Payload of each flow in Mbit/s; `machine` has run for a time that the warm-up is not part of.
pub(crate) fn mbit(machine: &Host) -> Vec<f64> {
    let now = machine.now();
    let flows = machine.io().flows.iter();
    let rate = flows.map(|flow| {
        let span = now.since(Time::ZERO + flow.config.warmup);
        flow.delivered_bytes() as f64 * 8.0 / span.as_s_f64() / 1e6
    });
    rate.collect()
}

/// Whether `value` is within `percent` of `theory`.
pub(crate) fn near(what: &str, value: f64, theory: f64, percent: f64) {
    let off = (value / theory - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: {value:.3}, by theory {theory:.3}, off by {off:.2} %");
}
