//! Throughput where one thing is scarce, against what that thing can do.

use lowtail_host::guest::driver::Backend;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::lock::GrantLock;
use lowtail_lab::network::links::Way;
use lowtail_net::datagram::Pace;

use crate::bed::{
    BACKENDS, WIRE_BYTES, Wire, dom, driver, flow, guest, host, mbit, ms, near, nic, run, us,
};

/// Payload of 1400 bytes at so many packets a second, in Mbit/s.
fn payload_mbit(packets_per_s: f64) -> f64 {
    packets_per_s * 1400.0 * 8.0 / 1e6
}

/// Costs of one percent or so of a packet's time on a wire of 1 Gbit/s.
fn light() -> PathCosts {
    PathCosts { back_packet: us(1), front_packet: us(1), nic_packet: us(1), ..Default::default() }
}

/// What the wire carries is payload and the rest of each frame, one after the other.
#[test]
fn a_wire_is_full() {
    let wire = 1000.0 * 1400.0 / WIRE_BYTES;
    for backend in BACKENDS {
        let ways = [
            (Way::In { nic: 0 }, Pace::Open(None)),
            (Way::In { nic: 0 }, Pace::Window(128)),
            (Way::Out { nic: 0 }, Pace::Window(128)),
        ];
        for (way, pace) in ways {
            let flows = vec![flow(0, way, pace)];
            let config = host(&driver(backend), 2, &[guest()], vec![nic(1000)], flows, light());
            let machine = run(&config, 1, ms(600));
            near(&format!("{backend:?}, {way:?}, {pace:?}"), mbit(&machine)[0], wire, 0.5);
        }
    }
}

/// A tasklet that is busy all the time, and whose vCPU does nothing else that costs, takes
/// `back_packet` and `grant_slot` for each packet; the wire offers four times as many.
#[test]
fn a_single_tasklet_is_the_limit() {
    let costs = PathCosts {
        back_packet: us(3),
        grant_slot: us(2),
        front_packet: us(1),
        ..Default::default()
    };
    for ways in [|nic| Way::In { nic }, |nic| Way::Out { nic }] {
        let flows = (0..2).map(|i| flow(i, ways(i), Pace::Open(None))).collect();
        let nics = vec![nic(4500); 2];
        let config = host(&driver(Backend::Tasklet), 2, &[guest(); 2], nics, flows, costs);
        let machine = run(&config, 1, ms(600));
        let sum: f64 = mbit(&machine).iter().sum();
        near(&format!("{:?}", ways(0)), sum, payload_mbit(1e6 / 5.0), 3.0);
    }
}

/// Ten pairs of tasklets could do 200 k packets/s each, and the wires bring 85 k/s each. With
/// one lock that is held for 4 us by each packet, all of them do 250 k/s.
#[test]
fn a_global_lock_is_the_limit_of_ten_pairs() {
    let costs = PathCosts {
        back_packet: us(1),
        grant_slot: us(4),
        front_packet: us(1),
        ..Default::default()
    };
    let sum = |grant_lock| {
        let driver =
            lowtail_host::guest::driver::DriverConfig { grant_lock, ..driver(Backend::Tasklets) };
        let flows = (0..10).map(|i| flow(i, Way::In { nic: i }, Pace::Open(None))).collect();
        let config = host(&driver, 10, &[guest(); 10], vec![nic(1000); 10], flows, costs);
        mbit(&run(&config, 1, ms(400))).iter().sum::<f64>()
    };
    let wires = 10.0 * 1000.0 * 1400.0 / WIRE_BYTES;
    near("global", sum(GrantLock::Global), payload_mbit(1e6 / 4.0), 3.0);
    for lock in [GrantLock::None, GrantLock::PerDomain, GrantLock::PerCpu] {
        near(&format!("{lock:?}"), sum(lock), wires, 0.5);
    }
}

/// A window of packets a round trip: two wires of 500 us, and the frames themselves, are all
/// that takes time.
#[test]
fn a_window_is_the_limit() {
    for backend in BACKENDS {
        for way in [Way::In { nic: 0 }, Way::Out { nic: 0 }] {
            let nics = vec![Wire { latency: us(500), ..nic(10_000) }];
            let flows = vec![flow(0, way, Pace::Window(16))];
            let config = host(&driver(backend), 2, &[guest()], nics, flows, PathCosts::default());
            let machine = run(&config, 1, ms(1100));
            // The second packet of a pair brings the acknowledgement: two frames of 1.17 us,
            // and an acknowledgement of 90 bytes on the wire.
            let round_us = 1000.0 + 2.0 * WIRE_BYTES * 8.0 / 10_000.0 + 90.0 * 8.0 / 10_000.0;
            let theory = payload_mbit(16.0 * 1e6 / round_us);
            near(&format!("{backend:?}, {way:?}"), mbit(&machine)[0], theory, 3.0);
        }
    }
}

/// Between guests no wire is in the way: with costs at the receiver only, it is the limit.
#[test]
fn a_receiving_guest_is_the_limit_between_two() {
    for backend in BACKENDS {
        let costs = PathCosts { front_kb: us(10), ..Default::default() };
        let flows = vec![flow(0, Way::Between { to: dom(1) }, Pace::Window(64))];
        let config = host(&driver(backend), 2, &[guest(); 2], Vec::new(), flows, costs);
        let machine = run(&config, 1, ms(600));
        // 1428 bytes of packet each, and 52 of an acknowledgement for every second one.
        let packet_us = 10.0 * (1428.0 + 52.0 / 2.0) / 1024.0;
        near(&format!("{backend:?}"), mbit(&machine)[0], payload_mbit(1e6 / packet_us), 3.0);
    }
}
