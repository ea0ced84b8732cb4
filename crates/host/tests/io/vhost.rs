//! KVM's back end: what a packet's way through vhost costs, and how much a worker does in its turn.

use lowtail_engine::{Duration, Time};
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::port::{Destination, LostAt, PacketSpec, PortEvent};
use lowtail_host::{Config, Dom, Host, SchedulerConfig, VmConfig, Workload};
use lowtail_testkit::netback::{self, dom, guest, nic, with_vhost};

fn ns(n: u64) -> Duration {
    Duration::from_ns(n)
}

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

/// Costs of which each sum says what it is made of.
const PRIMES: PathCosts = PathCosts {
    upcall: Duration::from_ns(1_009),
    irq: Duration::from_ns(2_003),
    notify: Duration::from_ns(4_001),
    task_switch: Duration::from_ns(8_009),
    nic_packet: Duration::from_ns(16_001),
    back_packet: Duration::from_ns(1 << 30),
    back_kb: Duration::from_ns(1 << 30),
    grant_slot: Duration::from_ns(1 << 30),
    front_packet: Duration::from_ns(128_021),
    front_kb: Duration::ZERO,
    split_piece: Duration::from_ns(1 << 30),
    vhost_kick: Duration::from_ns(5_003),
    vhost_turn: Duration::from_ns(256_019),
    vhost_copy: Duration::from_ns(70_001),
    vhost_send: Duration::from_ns(512_009),
    vhost_receive: Duration::from_ns(1_024_021),
    vhost_kb: Duration::from_ns(2_048),
};

/// A KVM host whose threads have a pCPU each; guests are `dom(0)` and so on.
fn kvm(guests: usize, costs: PathCosts, queue_packets: u16) -> Host {
    let driver = netback::driver(lowtail_host::guest::driver::Backend::Napi);
    let mut config = netback::host(&driver, 1, &vec![guest(); guests], vec![nic()], costs);
    with_vhost(&mut config, 1, queue_packets);
    Host::new(&config, 1).expect("valid")
}

fn spec(bytes: u32, token: u32) -> PacketSpec {
    PacketSpec::new(bytes, 0, token).expect("of a length")
}

/// Runs for `span`, and says what came out and when.
fn run(host: &mut Host, span: Duration) -> Vec<(Time, PortEvent)> {
    let end = host.now() + span;
    let mut out = Vec::new();
    loop {
        let now = host.now();
        out.extend(host.handed().drain(..).map(|event| (now, event)));
        if host.next_time().is_none_or(|next| next > end) {
            return out;
        }
        host.step(end);
    }
}

/// When `token` was received or left by the NIC.
fn at(out: &[(Time, PortEvent)], wanted: u32) -> Time {
    let found = out.iter().find(|(_, event)| {
        matches!(event, PortEvent::Received { token, .. } | PortEvent::Transmit { token, .. } if *token == wanted)
    });
    found.unwrap_or_else(|| panic!("{wanted} is not in {out:?}")).0
}

/// From the NIC to a guest: the host's softirq, the copy with its KiB, the call, the guest's interrupt and its poll. From a guest to
/// its neighbour: the timer of its kernel has it send and kick; its own worker; the other one. What ends a worker's turn, and a kick, holds up nobody here.
#[test]
fn the_way_costs_what_its_parts_cost() {
    let mut host = kvm(2, PRIMES, 1000);
    run(&mut host, us(500));
    let start = Time::ZERO + us(500);
    host.arrive(start, 0, dom(0), spec(1024, 1)).expect("taken");
    let out = run(&mut host, us(20_000));
    let to_guest = |copy: u64| 1_024_021 + copy + 4_001 + 1_009 + 2_003 + 128_021;
    assert_eq!(at(&out, 1), start + ns(16_001 + to_guest(2_048)));
    let start = host.now() + us(1);
    host.send(start, dom(0), Destination::Dom(dom(1)), spec(2048, 2)).expect("taken");
    let out = run(&mut host, us(20_000));
    let sends = 1_009 + 128_021 + 4_001 + 70_001 + 2 * 2_048 + 512_009;
    assert_eq!(at(&out, 2), start + ns(sends + to_guest(2 * 2_048)));
    // The first guest's worker has had a turn for each packet, and has called once: nobody waits for buffers that are used.
    let worker = host.state().doms[dom(0).index()].vcpus[1];
    let turns = 2 * 256_019 + 1_024_021 + 2_048 + 4_001 + 70_001 + 2 * 2_048 + 512_009;
    assert_eq!(host.vcpu_time(worker).1, ns(turns));
}

/// What a guest hands over at once goes on in batches of 64: `VHOST_NET_BATCH`. Of packets that do not fit into a page each goes on its own.
#[test]
fn batches() {
    let costs = PathCosts { vhost_copy: us(10), ..PathCosts::default() };
    for (bytes, batch) in [(100, 64), (3622, 64), (3623, 1), (30_000, 1)] {
        let mut host = kvm(1, costs, 1000);
        run(&mut host, us(100));
        let start = host.now() + us(1);
        let n = if bytes > 4096 { 20 } else { 150 };
        // In the stack before its softirq comes to it.
        for token in 0..n {
            host.send(start, dom(0), Destination::Nic(0), spec(bytes, token)).expect("taken");
        }
        let out = run(&mut host, us(20_000));
        assert_eq!(out.len(), n as usize);
        let together = out.iter().filter(|(at, _)| *at == out[0].0).count();
        assert_eq!(together, batch, "of {bytes} bytes");
        assert_eq!(out[0].0, start + us(10) * batch as u64, "of {bytes} bytes");
    }
}

/// Of a batch, one packet after the other passes the host's network.
#[test]
fn one_by_one_through_the_network() {
    let costs = PathCosts { vhost_copy: us(1), vhost_send: us(10), ..PathCosts::default() };
    let mut host = kvm(1, costs, 1000);
    run(&mut host, us(100));
    let start = host.now() + us(1);
    for token in 0..3 {
        host.send(start, dom(0), Destination::Nic(0), spec(100, token)).expect("taken");
    }
    let out = run(&mut host, us(1000));
    assert_eq!([0, 1, 2].map(|token| at(&out, token)), [13, 23, 33].map(|span| start + us(span)));
}

/// A worker with more than a turn's packets for its guest turns to what that sends after 256 of them: `VHOST_NET_PKT_WEIGHT`.
#[test]
fn turns_end() {
    let costs = PathCosts { vhost_receive: us(10), vhost_copy: us(1), ..PathCosts::default() };
    let mut host = kvm(1, costs, 1000);
    run(&mut host, us(100));
    let start = host.now() + us(1);
    for token in 0..400 {
        host.advance(start).expect("on time");
        // The ring of the NIC has room for 256, and the softirq takes 64 at a time for nothing.
        host.arrive(host.now(), 0, dom(0), spec(100, token)).expect("taken");
        if token % 200 == 199 {
            run(&mut host, us(0));
        }
    }
    host.send(host.now(), dom(0), Destination::Nic(0), spec(100, 1000)).expect("taken");
    let out = run(&mut host, us(20_000));
    let sent = at(&out, 1000);
    let received = |(_, event): &&(Time, PortEvent)| matches!(event, PortEvent::Received { .. });
    let before = out.iter().filter(|(at, _)| *at <= sent).filter(received).count();
    assert_eq!((before, out.iter().filter(received).count()), (256, 400), "{sent:?}");
}

/// A tap has room for as many packets as it has; what comes more is lost there.
#[test]
fn a_tap_that_is_full() {
    let costs = PathCosts { vhost_receive: us(1000), ..PathCosts::default() };
    let mut host = kvm(1, costs, 16);
    run(&mut host, us(100));
    let start = host.now() + us(1);
    // The worker takes the first batch, as many as there are, when the first one comes.
    host.arrive(start, 0, dom(0), spec(100, 0)).expect("taken");
    run(&mut host, us(10));
    for token in 1..=20 {
        host.arrive(host.now(), 0, dom(0), spec(100, token)).expect("taken");
    }
    let out = run(&mut host, us(100));
    let lost = |event: &PortEvent| matches!(event, PortEvent::Lost { at: LostAt::BackEnd, .. });
    assert_eq!(out.iter().filter(|(_, event)| lost(event)).count(), 4, "{out:?}");
}

/// How long packets are in the tap is what the worker takes to each of them: as many copies. The end of its turn comes later.
#[test]
fn waits_in_the_tap() {
    let costs = PathCosts { vhost_turn: us(3), vhost_receive: us(10), ..PathCosts::default() };
    let mut host = kvm(1, costs, 1000);
    run(&mut host, us(100));
    let start = host.now() + us(1);
    (0..4).for_each(|token| host.arrive(start, 0, dom(0), spec(100, token)).expect("taken"));
    run(&mut host, us(1000));
    let waits = host.io().tap_waits(dom(0)).expect("it has a tap");
    assert_eq!((waits.n(), waits.min(), waits.max()), (4, us(10), us(40)));
    assert_eq!(waits.mean(), us(25));
    assert!(host.io().tap_waits(Dom(0)).is_none(), "it has no interface");
}

/// Interfaces without a back end, a back end without an interface, and two kinds of back ends on one host are refused.
#[test]
fn what_cannot_be_is_refused() {
    let worker = (1, Workload::Vhost(Default::default()));
    let served = Workload::Mix(vec![(1, Workload::Net(guest())), worker.clone()]);
    let vm = |name: &str, workload, vcpus| VmConfig { vcpus, ..VmConfig::new(name, workload) };
    let check = |vms: Vec<VmConfig>| {
        let config = Config::new(4, SchedulerConfig::Null, lowtail_host::Costs::FREE, vms);
        Host::new(&config, 1).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(check(vec![vm("a", served.clone(), 2)]), Ok(()));
    let bare = vm("b", Workload::Net(guest()), 1);
    let message = check(vec![vm("a", served.clone(), 2), bare]).expect_err("no back end");
    assert!(message.contains("`b` has an interface, but no vhost"), "{message}");
    let driver = Workload::Driver(netback::driver(lowtail_host::guest::driver::Backend::Threads));
    let message = check(vec![vm("a", served, 2), vm("dom0", driver, 1)]).expect_err("two kinds");
    assert!(message.contains("a driver domain and vhost"), "{message}");
    for parts in [vec![worker.clone()], vec![(1, Workload::CpuLoop), worker]] {
        let vcpus = parts.len() as u16;
        assert!(check(vec![vm("a", Workload::Mix(parts), vcpus)]).is_err());
    }
}
