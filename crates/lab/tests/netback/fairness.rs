//! Who gets how much of a back end that has too little for all.

use lowtail_engine::Distribution;
use lowtail_host::guest::driver::Backend;
use lowtail_host::io::costs::PathCosts;
use lowtail_lab::network::links::{HostFlow, Way};
use lowtail_net::datagram::Pace;

use crate::bed::{BACKENDS, driver, flow, guest, host, mbit, ms, near, nic, run, us};

/// A front end that takes as long as a slot of a grant.
fn costs() -> PathCosts {
    PathCosts { front_packet: us(2), ..crate::bed::costs() }
}

/// Jain's index: 1 if all have the same, 1/n if one has all.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Equal streams get the same from back ends that serve in turn or by bytes.
#[test]
fn equal_streams_get_the_same() {
    for backend in BACKENDS {
        for vcpus in [1, 3] {
            let flows = (0..9).map(|i| flow(i, Way::In { nic: i }, Pace::Window(32))).collect();
            let config =
                host(&driver(backend), vcpus, &[guest(); 9], vec![nic(1000); 9], flows, costs());
            let shares = mbit(&run(&config, 1, ms(1100)));
            assert!(jain(&shares) > 0.99, "{backend:?}, {vcpus} vCPUs: {shares:?}");
        }
    }
}

/// Two greedy guests, one with aggregates of 64 KB and one with packets of 1400 bytes, over
/// a NIC that is faster than the back end. Costs go by the byte, so that neither kind is cheaper.
#[test]
fn bytes_not_packets_are_shared_by_small_first() {
    let costs = PathCosts { back_kb: us(4), ..Default::default() };
    let out = |guest, payload_bytes| HostFlow {
        payload_bytes,
        ..flow(guest, Way::Out { nic: 0 }, Pace::Open(None))
    };
    let shares = |backend| {
        let flows = vec![out(0, 65_000), out(1, 1400)];
        let config = host(&driver(backend), 1, &[guest(); 2], vec![nic(10_000)], flows, costs);
        let shares = mbit(&run(&config, 1, ms(2100)));
        (shares[0], shares[1])
    };
    let (large, small) = shares(Backend::SmallFirst);
    // What is counted is the length of packets, with 28 bytes of headers each.
    near("small-first", large * 65_028.0 / 65_000.0, small * 1428.0 / 1400.0, 5.0);
    // 1024 bytes take 4 us.
    near("all", large * 65_028.0 / 65_000.0 + small * 1428.0 / 1400.0, 1024.0 * 8.0 / 4.0, 3.0);
    // One packet from each in turn are 46 times the bytes, if both rings have some at any time;
    // at the least, a full ring of each: 15 aggregates of 17 slots, and 256 packets.
    for backend in [Backend::Tasklet, Backend::Threads, Backend::Napi] {
        let (large, small) = shares(backend);
        let (least, most) = (15.0 * 65_000.0 / (256.0 * 1400.0), 65_000.0 / 1400.0);
        let ratio = large / small;
        assert!(ratio > least * 0.97 && ratio < most * 1.03, "{backend:?}: {ratio}");
    }
}

/// A guest whose pings are all it gets, beside nine streams with windows of 64, on one vCPU.
///
/// A ping waits for what is being worked on; then its NIC has its turn when nothing is left
/// for guests. Before that, each of nine other NICs may bring a portion: 16 packets of 2 us to
/// poll, as many of 5 us to hand on, 8 acknowledgements of 5 us, and notifications, all in all
/// 160 us. On the way back it is small and goes before all.
#[test]
fn a_small_interface_waits_for_a_bounded_time() {
    let round = us(160);
    let mut flows: Vec<_> = (0..9).map(|i| flow(i, Way::In { nic: i }, Pace::Window(64))).collect();
    flows.push(HostFlow {
        payload_bytes: 56,
        requests: 300,
        ..flow(9, Way::In { nic: 9 }, Pace::Requests(Distribution::Exponential(ms(5))))
    });
    let config =
        host(&driver(Backend::SmallFirst), 1, &[guest(); 10], vec![nic(1000); 10], flows, costs());
    let machine = run(&config, 1, ms(2100));
    let pings = &machine.flows()[9];
    assert!(pings.latency().n() >= 290, "{} answers", pings.latency().n());
    assert_eq!(pings.lost(), 0);
    assert!(pings.latency().max() < round * 11, "{}", pings.latency().max());
    // And the vCPU was busy all the time, so that there was something to wait for.
    let cpu = machine.vcpu_time(0);
    assert!(cpu > ms(2090), "{cpu}");
}

/// What a flooded guest sends goes out all the same: an interface's two directions take turns.
/// If all acknowledgements were lost in the flood, a window of 16 would go every 200 ms.
#[test]
fn a_flooded_interface_still_sends() {
    for backend in BACKENDS {
        let flood = flow(0, Way::In { nic: 0 }, Pace::Open(None));
        let out = flow(0, Way::Out { nic: 1 }, Pace::Window(16));
        let config =
            host(&driver(backend), 2, &[guest()], vec![nic(10_000); 2], vec![flood, out], costs());
        let shares = mbit(&run(&config, 1, ms(1100)));
        let least = 16.0 * 1400.0 * 8.0 * 5.0 / 1e6;
        assert!(shares[1] > least * 0.9 && shares[0] > 10.0, "{backend:?}: {shares:?}");
    }
}
