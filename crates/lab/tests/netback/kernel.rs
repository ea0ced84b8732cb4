//! The order of work in a kernel: interrupts, softirqs, threads and processes.

use lowtail_engine::Distribution;
use lowtail_engine::Duration;
use lowtail_host::guest::driver::{Backend, DriverConfig, Process};
use lowtail_host::guest::kernel::Softirqs;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::nic::NicConfig;
use lowtail_lab::network::links::{HostFlow, Way};
use lowtail_net::datagram::Pace;
use lowtail_testkit::netback::coinciding_costs;

use crate::bed::{Wire, driver, flow, guest, host, mbit, ms, near, nic, run, us};

/// The work of the back end alone, more than a wire of 10 Gbit/s leaves time for.
fn costs() -> PathCosts {
    PathCosts { nic_packet: us(1), ..crate::bed::costs() }
}

/// A process that does 4 ms of work and sleeps 20 ms, over and over, beside a back end with
/// too much to do: how many milliseconds it waits in between on average.
fn process_beside_overload(backend: Backend, polite: bool) -> f64 {
    let processes = vec![Process::sleeper(ms(20), ms(4))];
    let softirqs = if polite { Softirqs::Polite } else { Softirqs::AfterAll };
    let driver = DriverConfig { processes, softirqs, ..driver(backend) };
    // 341 k packets/s in all, of which it does 200 k/s; what NICs cost is little, 3 %.
    let costs = PathCosts { upcall: us(0), irq: us(0), nic_packet: us(1) / 10, ..costs() };
    let flows = (0..4).map(|i| flow(i, Way::In { nic: i }, Pace::Open(None))).collect();
    let config = host(&driver, 1, &[guest(); 4], vec![nic(1000); 4], flows, costs);
    let machine = run(&config, 1, ms(4000));
    let waits = machine.host.outcome(lowtail_host::Dom(0)).latency.expect("a sleeper is measured");
    4000.0 / waits.n().max(1) as f64 - 24.0
}

/// Tasklets run before any process: its 4 ms of work meet a tick at least, which has them run
/// ten more rounds, each with a batch of 238 packets of 5 us: 12 ms. A thread of the kernel, be
/// it the back end's or that of softirqs in a polite kernel, shares by half: the process waits
/// for as long as it works, and a piece of the other's work or two.
#[test]
fn tasklets_run_before_processes_and_threads_share_with_them() {
    let threads = process_beside_overload(Backend::Threads, false);
    let polite = process_beside_overload(Backend::Tasklet, true);
    let tasklets = process_beside_overload(Backend::Tasklet, false);
    assert!(threads < 8.0, "threads: {threads} ms");
    assert!(polite < 8.0, "polite: {polite} ms");
    assert!(tasklets > 12.0, "tasklets: {tasklets} ms");
}

/// Two vCPUs on which 90 k packets/s arrive each; the back end takes 5 us for each, so that
/// all of it is 0.9 of a vCPU. Work of two tasklets is just that, one on each. A single one
/// runs on one vCPU at a time, while the other one, whenever it has raised it, spins: at this
/// load, for a third as much again at least. All packets are delivered in both cases.
#[test]
fn a_tasklet_runs_on_one_vcpu_while_the_other_spins() {
    let costs = PathCosts { back_packet: us(3), grant_slot: us(2), ..Default::default() };
    let gap = Duration::from_ns(11_111);
    let busy = |backend| {
        let pace = Pace::Open(Some(Distribution::Exponential(gap)));
        let flows = (0..2).map(|i| flow(i, Way::In { nic: i }, pace)).collect();
        let config = host(&driver(backend), 2, &[guest(); 2], vec![nic(10_000); 2], flows, costs);
        let machine = run(&config, 1, ms(1100));
        let sum: f64 = mbit(&machine).iter().sum();
        near(&format!("{backend:?}"), sum, 2.0 * 1400.0 * 8.0 / 11.111, 1.0);
        (0..2).map(|v| machine.vcpu_time(v).as_s_f64()).sum::<f64>() / 1.1
    };
    near("two tasklets", busy(Backend::Tasklets), 0.9, 1.0);
    let one = busy(Backend::Tasklet);
    assert!(one > 1.2, "{one} of 2 vCPUs");
}

/// Interrupts at the very instant at which steps of several vCPUs end: costs of whole
/// microseconds coincide all the time. Nobody with a pCPU is forgotten: `check` says so.
#[test]
fn no_vcpu_is_forgotten_when_an_interrupt_meets_the_end_of_a_step() {
    let costs = coinciding_costs();
    let computing = [NetGuestConfig { queues: 2, computes: true, ..guest() }; 10];
    let flows = (0..16).map(|i| {
        let nic = i % 4;
        let (way, pace) = match i / 4 {
            0 => (Way::In { nic }, Pace::Open(None)),
            1 => (Way::In { nic }, Pace::Window(20)),
            2 => (Way::Out { nic }, Pace::Window(20)),
            _ => (Way::Between { to: crate::bed::dom((i + 1) % 10) }, Pace::Window(20)),
        };
        flow(i % 10, way, pace)
    });
    let driver = driver(Backend::Tasklet);
    let wires = vec![Wire { nic: NicConfig { moderation: us(50), ..nic(100).nic }, ..nic(100) }; 4];
    let config = host(&driver, 3, &computing, wires, flows.collect(), costs);
    let mut world = config.world(1);
    while world.step(lowtail_engine::Time::ZERO + ms(3000)) {
        world.hosts()[0].check().expect("right");
    }
}

/// The latencies of pings to a guest that may compute beside.
fn ping(computes: bool) -> (Duration, Duration) {
    let guests = [NetGuestConfig { computes, ..guest() }];
    let flows = vec![HostFlow {
        payload_bytes: 56,
        requests: 500,
        warmup: us(0),
        ..flow(0, Way::In { nic: 0 }, Pace::Requests(Distribution::Exponential(ms(1))))
    }];
    let config = host(&driver(Backend::Tasklet), 1, &guests, vec![nic(1000)], flows, costs());
    let machine = run(&config, 1, ms(1000));
    let latency = machine.flows()[0].latency();
    assert_eq!(latency.n(), 500, "computes: {computes}");
    (latency.min(), latency.max())
}

/// An interrupt ends a process's step at once: a ping finds a guest that computes as fast as
/// one that sleeps. Wires 20 us each way and 0.976 us for 122 bytes; in the driver domain two
/// interrupts (2 us each), a poll (1 us), twice the back end (5 us); notifications both ways
/// (1 us each); in the guest interrupt (2 us), poll and answer (1 us each).
#[test]
fn an_interrupt_ends_a_process_step_at_once() {
    let theory = (us(20) + Duration::from_ns(976)) * 2 + us(2 * 2 + 1 + 2 * 5 + 2 + 2 + 2);
    for computes in [false, true] {
        let (least, most) = ping(computes);
        assert_eq!(least, theory, "computes: {computes}");
        // Two pings in a row wait for each other, once or twice.
        assert!(most < theory * 2, "computes: {computes}: {most}");
    }
}

/// A request with 300 ms of work beside a process in a loop takes twice that, within a turn.
#[test]
fn two_processes_share_by_half() {
    let guests = [NetGuestConfig { computes: true, ..guest() }];
    let flows = vec![HostFlow {
        payload_bytes: 56,
        requests: 3,
        service: ms(300),
        warmup: us(0),
        ..flow(0, Way::In { nic: 0 }, Pace::Requests(Distribution::Fixed(ms(900))))
    }];
    let costs = PathCosts::default();
    let config = host(&driver(Backend::Tasklet), 1, &guests, vec![nic(1000)], flows, costs);
    let machine = run(&config, 1, ms(3000));
    let latency = machine.flows()[0].latency();
    assert_eq!(latency.n(), 3);
    near("least", latency.min().as_s_f64(), 0.6, 2.0);
    near("most", latency.max().as_s_f64(), 0.6, 2.0);
}
