//! CAKE: its shaper, its shares, and COBALT.

use lowtail_engine::Duration;
use lowtail_net::packet::{Ecn, Packet};
use lowtail_net::queue::Cause;
use lowtail_net::queue::Queue;
use lowtail_net::queue::cake::{Cake, CakeConfig};
use lowtail_net::rate::Rate;

use crate::bed::{Bed, data, datagram};
use crate::fair::{assert_shares, shares, shares_from};

fn at(mbit_s: u64) -> CakeConfig {
    CakeConfig { rate: Some(Rate::from_mbit_s(mbit_s)), ..CakeConfig::default() }
}

/// Packets leave one by one, each as much later as the one before it takes: no burst, also not
/// after a pause.
#[test]
fn shapes_without_a_burst() {
    let mut bed = Bed::new(Cake::new(at(100)));
    for _ in 0..3 {
        for n in 0..5 {
            bed.put(datagram((1, 2, 3), n, 1250));
        }
        let begin = bed.now;
        for n in 0..5 {
            assert_eq!(bed.next().map(|p| p.seq), Some(n));
            // 10,000 bits at 100 Mbit/s.
            assert_eq!(bed.now.since(begin), Duration::from_us(100) * n);
        }
        bed.pass(Duration::from_ms(1));
    }
}

/// A segment of 64 KB is cut, and a packet that comes behind it waits for a frame or two.
#[test]
fn cuts_segments() {
    for (split_gso, before) in [(true, 2), (false, 1)] {
        let mut bed = Bed::new(Cake::new(CakeConfig { split_gso, ..at(100) }));
        bed.put(data((1, 2, 3), 0, 64_000));
        assert_eq!(bed.queue.packets(), if split_gso { 45 } else { 1 });
        bed.next();
        bed.put(datagram((4, 2, 5), 0, 100));
        let mut passed = 1;
        while bed.next().unwrap().flow.0 != 5 {
            passed += 1;
        }
        assert!(passed <= before, "{passed}");
        let waited = bed.now.as_ns() as f64 / 1e3;
        // A frame takes 120 us, the whole segment 5.3 ms.
        assert!(if split_gso { waited <= 240.0 } else { waited > 5_000.0 }, "{waited} us");
    }
}

/// `triple-isolate`: hosts share alike, however many flows each has, by source and by
/// destination.
#[test]
fn hosts_share_alike() {
    let by_source = [((1, 6, 1), 1500), ((2, 7, 2), 1500), ((2, 8, 3), 700), ((2, 9, 4), 300)];
    let by_destination = [((6, 1, 1), 1500), ((7, 2, 2), 1500), ((8, 2, 3), 700), ((9, 2, 4), 300)];
    for flows in [by_source, by_destination] {
        let got = shares(Cake::new(CakeConfig::default()), &flows, 6_000_000);
        assert_shares(&[got[0], got[1..].iter().sum()], &[1, 1]);
        assert_shares(&got[1..], &[1, 1, 1]);
    }
}

/// A flow that was sparse, and empty when its turn came, counts as one of its host's when it comes
/// back.
#[test]
fn hosts_share_alike_after_a_pause() {
    let flows = [((1, 6, 1), 1500), ((2, 7, 2), 1500), ((2, 8, 3), 1500), ((2, 9, 4), 1500)];
    // With the overhead, a packet is longer than a turn.
    let mut bed = Bed::new(Cake::new(CakeConfig { overhead: 38, ..CakeConfig::default() }));
    for (n, &(of, bytes)) in flows.iter().enumerate() {
        bed.put(datagram(of, n as u64, bytes));
    }
    for n in 0..4 {
        assert_eq!(bed.next().map(|p| p.seq), Some(n));
    }
    let got = shares_from(&mut bed, &flows, 6_000_000);
    assert_shares(&got, &[3, 1, 1, 1]);
}

/// Standing overload: the first signal an interval after the target was passed, then by the
/// square root, as CoDel's; the last packet of a queue is never dropped.
#[test]
fn cobalt_is_codel_at_first() {
    let mut bed = Bed::new(Cake::new(CakeConfig::default()));
    for n in 0..300 {
        bed.put(datagram((1, 2, 3), n, 1500));
    }
    let mut drops = Vec::new();
    while bed.queue.packets() > 0 {
        bed.pass(Duration::from_ms(1));
        drops.extend(bed.get().1.iter().map(|_| bed.now.as_ns() / 1_000_000));
    }
    // Late from 6 ms on (more than 5): 106; counts go 1, 2, 3, and the time is the count's after
    // the drop: 100 / sqrt(2), 100 / sqrt(3).
    assert_eq!(drops[..3], [106, 177, 235]);
    let mut bed = Bed::new(Cake::new(CakeConfig::default()));
    for n in 0..100 {
        bed.put(datagram((1, 2, 3), n, 1500));
        bed.pass(Duration::from_ms(50));
        assert!(bed.get().0.is_some());
    }
}

/// BLUE: a flow that floods and does not listen is dropped from more and more, also where it is
/// capable of marks; one beside it is not.
#[test]
fn blue_is_for_those_who_do_not_listen() {
    let mut bed = Bed::new(Cake::new(CakeConfig { memory_limit: Some(150_000), ..at(100) }));
    let (mut aqm, mut sparse) = (0, 0);
    for n in 0..20_000u64 {
        let flood = Packet { ecn: Ecn::Capable, ..datagram((1, 2, 3), n, 1250) };
        let mut full = [bed.put(flood), bed.put(flood)].concat();
        if n % 100 == 0 {
            full.extend(bed.put(datagram((5, 2, 6), n, 100)));
        }
        for (dropped, cause) in full {
            assert_eq!((dropped.flow.0, cause), (3, Cause::Full));
        }
        bed.pass(Duration::from_us(101));
        let (sent, dropped) = bed.get();
        sparse += u32::from(sent.is_some_and(|p| p.flow.0 == 6));
        for (packet, cause) in dropped {
            assert_eq!((packet.flow.0, cause), (3, Cause::Aqm));
            aqm += u32::from(n >= 10_000);
        }
    }
    assert!(sparse >= 199, "{sparse}");
    // After a second, BLUE has added 1/256 every 5 ms, up to a half or more of what is sent.
    assert!(aqm > 5_000, "{aqm}");
}
