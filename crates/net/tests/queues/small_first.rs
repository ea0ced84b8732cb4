//! Small first: urgency, order, shares and room.

use lowtail_engine::Duration;
use lowtail_net::packet::{End, Packet};
use lowtail_net::queue::Queue;
use lowtail_net::queue::codel::{CodelConfig, DC_INTERVAL, DC_TARGET};
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::queue::tag::{BySource, Tag};

use crate::bed::{Bed, datagram};
use crate::fair::{assert_shares, shares};

const NO_CODEL: SmallFirstQueueConfig = SmallFirstQueueConfig {
    small_classes: 2,
    quantum: 1514,
    flows: 1024,
    limit_bytes: 2_000_000,
    codel: None,
};

fn of_class(class: u8, of: (u32, u32, u32), n: u64) -> Packet {
    Packet { class, ..datagram(of, n, 1500) }
}

#[test]
fn small_ones_go_first() {
    let mut bed = Bed::new(SmallFirstQueue::new(NO_CODEL));
    for n in 0..60 {
        let class = (n * 7 % 4) as u8;
        bed.put(of_class(class, (u32::from(class), 9, 1), n));
    }
    let classes: Vec<bool> = std::iter::from_fn(|| bed.next()).map(|p| p.class >= 2).collect();
    assert!(classes.is_sorted());
    assert_eq!(classes.len(), 60);
}

/// A pair that becomes small goes behind what waits of it, and is small once that has left.
#[test]
fn a_pair_does_not_overtake_itself() {
    let mut bed = Bed::new(SmallFirstQueue::new(NO_CODEL));
    let (pair, other) = ((1, 9, 1), (2, 9, 2));
    for n in 0..2 {
        bed.put(of_class(2, other, n));
        bed.put(of_class(2, pair, n));
    }
    bed.put(of_class(0, pair, 2));
    bed.put(of_class(0, other, 2));
    let order: Vec<_> = std::iter::from_fn(|| bed.next()).map(|p| (p.flow.0, p.seq)).collect();
    assert_eq!(order, [(2, 0), (1, 0), (2, 1), (1, 1), (2, 2), (1, 2)]);
    bed.put(of_class(2, other, 3));
    bed.put(of_class(1, pair, 3));
    bed.put(of_class(0, pair, 4));
    let order: Vec<_> = std::iter::from_fn(|| bed.next()).map(|p| (p.flow.0, p.seq)).collect();
    assert_eq!(order, [(1, 3), (1, 4), (2, 3)]);
}

/// By source first, then by flow; not by pair, and not by length. In each band.
#[test]
fn sources_share_a_band_and_flows_a_source() {
    let flows = [
        ((1, 9, 1), 1500),
        ((2, 7, 2), 300),
        ((2, 8, 3), 1500),
        ((2, 9, 4), 700),
        ((2, 9, 5), 700),
    ];
    for class in [0, 1, 7] {
        let queue = Tag::new(BySource::new(class), Box::new(SmallFirstQueue::new(NO_CODEL)));
        let got = shares(queue, &flows, 6_000_000);
        assert_shares(&[got[0], got[1..].iter().sum()], &[1, 1]);
        assert_shares(&got[1..], &[1, 1, 1, 1]);
    }
}

/// A band that others have filled: the packet of another source waits for one turn of each.
#[test]
fn nobody_owns_a_band() {
    for class in [0, 1, 2] {
        let mut bed = Bed::new(SmallFirstQueue::new(NO_CODEL));
        for n in 0..300 {
            // Each of them to ever new ends by ever new flows.
            for source in 1..=3 {
                bed.put(of_class(class, (source, 10 + n, 100 + n), u64::from(n)));
            }
        }
        for _ in 0..7 {
            bed.next();
        }
        bed.put(of_class(class, (9, 5, 5), 0));
        let others = std::iter::from_fn(|| bed.next()).take_while(|p| p.src != End(9)).count();
        assert!(others <= 3, "class {class}: {others} before it");
    }
}

/// A flood of large ones costs who floods; small ones find room as long as large ones have some.
#[test]
fn who_floods_loses() {
    let mut bed =
        Bed::new(SmallFirstQueue::new(SmallFirstQueueConfig { limit_bytes: 100_000, ..NO_CODEL }));
    for n in 0..5 {
        assert_eq!(bed.put(of_class(2, (2, 9, 2), n)), []);
    }
    for n in 0..500 {
        for (dropped, _) in bed.put(of_class(2, (1, n % 50, 1), u64::from(n))) {
            assert_eq!(dropped.src, End(1));
        }
    }
    // 66 packets of 1500 bytes fit.
    for n in 0..66 {
        for (dropped, _) in bed.put(of_class(0, (3, 9, 3), n)) {
            assert_ne!(dropped.src, End(3));
        }
    }
    assert_eq!(bed.put(of_class(0, (3, 9, 3), 66)).len(), 1);
    assert_eq!(bed.queue.packets(), 66);
}

/// CoDel: a queue that stands is cut, one beside it is not.
#[test]
fn codel_is_for_queues_that_stand() {
    let codel = Some(CodelConfig {
        target: DC_TARGET,
        interval: DC_INTERVAL,
        ecn: true,
        ..CodelConfig::default()
    });
    let config = SmallFirstQueueConfig {
        limit_bytes: 20_000_000,
        codel,
        ..SmallFirstQueueConfig::default()
    };
    let mut bed = Bed::new(SmallFirstQueue::new(config));
    for n in 0..2_000 {
        bed.put(of_class(2, (1, 9, 1), n));
    }
    let mut dropped = 0;
    for n in 0..1_000 {
        bed.put(of_class(0, (2, 9, 2), n));
        bed.pass(Duration::from_us(12));
        let (sent, none) = bed.get();
        assert_eq!((sent.unwrap().src, none.len()), (End(2), 0));
        bed.pass(Duration::from_us(12));
        let (sent, late) = bed.get();
        assert_eq!(sent.unwrap().src, End(1));
        dropped += late.len();
    }
    // 24 ms: the target of 0.1 and an interval of 2 pass, then 2 / sqrt(k) lie between drops. The
    // sum of 1 / sqrt(k) up to n is about 2 sqrt(n) - 1.46: it is 10.95 at n = 38.
    assert!((37..=40).contains(&dropped), "{dropped}");
}
