//! Who gets how much, and who goes first.

use lowtail_engine::Duration;
use lowtail_net::queue::Queue;
use lowtail_net::queue::drr::{Drr, DrrConfig, DrrKey};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::prio::Prio;

use crate::bed::{Bed, datagram};

/// Bytes that each flow `(source, destination, flow, bytes of each packet)` gets of `total`, if
/// something of each always waits.
pub(crate) fn shares<Q: Queue>(queue: Q, flows: &[((u32, u32, u32), u32)], total: u64) -> Vec<u64> {
    shares_from(&mut Bed::new(queue), flows, total)
}

/// The same for a queue that has seen something already.
pub(crate) fn shares_from<Q: Queue>(
    bed: &mut Bed<Q>,
    flows: &[((u32, u32, u32), u32)],
    total: u64,
) -> Vec<u64> {
    for (n, &(of, bytes)) in flows.iter().enumerate() {
        for _ in 0..8 {
            assert_eq!(bed.put(datagram(of, n as u64, bytes)), []);
        }
    }
    let (mut got, mut sum) = (vec![0; flows.len()], 0);
    while sum < total {
        let sent = bed.next().expect("packets wait");
        let n = sent.seq as usize;
        got[n] += u64::from(sent.bytes());
        sum += u64::from(sent.bytes());
        assert_eq!(bed.put(datagram(flows[n].0, sent.seq, flows[n].1)), []);
    }
    got
}

/// Each is within one percent of its weight's share.
pub(crate) fn assert_shares(got: &[u64], weights: &[u64]) {
    let (sum, all): (u64, u64) = (got.iter().sum(), weights.iter().sum());
    for (&got_of, &weight) in got.iter().zip(weights) {
        let share = sum as f64 * weight as f64 / all as f64;
        assert!((got_of as f64 - share).abs() <= 0.01 * share, "{got:?} for {weights:?}");
    }
}

const FLOWS: [((u32, u32, u32), u32); 3] = [((1, 9, 1), 1500), ((2, 9, 2), 300), ((3, 9, 3), 701)];

/// RFC 8290: byte-based fairness, whatever the length of packets.
#[test]
fn fq_codel_shares_bytes() {
    let got = shares(FqCodel::new(FqCodelConfig::default()), &FLOWS, 3_000_000);
    assert_shares(&got, &[1, 1, 1]);
}

/// RFC 8290: a flow without a queue goes before those with one. While the bulk flow is
/// new itself, its first turn goes first: packets until the quantum is used up, here two.
#[test]
fn fq_codel_lets_a_sparse_flow_pass() {
    let mut bed = Bed::new(FqCodel::new(FqCodelConfig::default()));
    for n in 0..500 {
        bed.put(datagram((1, 9, 1), n, 1500));
    }
    for n in 0..100 {
        bed.put(datagram((2, 9, 2), n, 100));
        let mut before = 0;
        loop {
            let sent = bed.next().unwrap();
            if sent.flow.0 == 2 {
                break;
            }
            before += sent.bytes();
        }
        assert_eq!(before, if n == 0 { 3_000 } else { 0 }, "before packet {n}");
        // Long enough a pause for it to leave all lists.
        for _ in 0..3 {
            bed.next();
        }
        bed.pass(Duration::from_us(1));
    }
}

/// Two that are new in turn do not starve an old one (RFC 8290, dequeueing: an empty new queue goes
/// to the end of the old ones). Each wants a half and gets a third.
#[test]
fn fq_codel_is_not_starved_by_new_flows() {
    let mut bed = Bed::new(FqCodel::new(FqCodelConfig::default()));
    for n in 0..3_000 {
        bed.put(datagram((1, 9, 1), n, 1500));
    }
    bed.next();
    bed.next();
    let mut bytes = [0; 3];
    for n in 0..6_000 {
        bed.put(datagram((2, 9, 2 + n % 2), u64::from(n), 1500));
        let sent = bed.next().unwrap();
        bytes[sent.flow.index() - 1] += u64::from(sent.bytes());
    }
    assert_shares(&bytes, &[1, 1, 1]);
}

/// RFC 8290, enqueueing: a flow that floods loses its own packets.
#[test]
fn fq_codel_drops_from_the_longest() {
    let config = FqCodelConfig { limit_packets: 100, ..FqCodelConfig::default() };
    let mut bed = Bed::new(FqCodel::new(config));
    for n in 0..10 {
        assert_eq!(bed.put(datagram((2, 9, 2), n, 1500)), []);
    }
    for n in 0..1_000 {
        for (dropped, _) in bed.put(datagram((1, 9, 1), n, 1500)) {
            assert_eq!(dropped.flow.0, 1);
        }
    }
}

#[test]
fn priority_is_strict() {
    let fifo = || Box::new(Fifo::new(FifoLimit::Packets(100), None)) as Box<dyn Queue>;
    let mut bed = Bed::new(Prio::new(vec![fifo(), fifo(), fifo()]));
    for n in 0..90 {
        let packet = datagram((1, 9, n), 0, 100);
        bed.put(lowtail_net::packet::Packet { class: (n * 7 % 5) as u8, ..packet });
    }
    let classes: Vec<u8> = std::iter::from_fn(|| bed.next()).map(|p| p.class.min(2)).collect();
    assert!(classes.is_sorted());
    assert_eq!(classes.len(), 90);
}

/// Shreedhar and Varghese 1995: throughput by quantum, whatever the length of packets.
#[test]
fn drr_shares_by_weight() {
    let equal = shares(Drr::new(DrrConfig::new(DrrKey::Flow)), &FLOWS, 3_000_000);
    assert_shares(&equal, &[1, 1, 1]);
    let weights = vec![0, 3, 1, 2];
    let config = DrrConfig { weights, ..DrrConfig::new(DrrKey::Source) };
    assert_shares(&shares(Drr::new(config), &FLOWS, 3_000_000), &[3, 1, 2]);
}

/// By source, more flows win nothing.
#[test]
fn drr_by_source_does_not_count_flows() {
    let flows = [((1, 9, 1), 1500), ((2, 8, 2), 1500), ((2, 9, 3), 1500), ((2, 9, 4), 300)];
    let got = shares(Drr::new(DrrConfig::new(DrrKey::Source)), &flows, 3_000_000);
    assert_shares(&[got[0], got[1..].iter().sum()], &[1, 1]);
}

/// Who comes and goes has at most a turn in each round: no more than who stays.
#[test]
fn drr_gives_no_extra_turn_to_who_comes_back() {
    let mut bed = Bed::new(Drr::new(DrrConfig::new(DrrKey::Flow)));
    let mut bytes = [0, 0];
    bed.put(datagram((1, 9, 1), 0, 1500));
    for _ in 0..2_000 {
        bed.put(datagram((2, 9, 2), 0, 1500));
        while bed.queue.packets() > 1 {
            let sent = bed.next().unwrap();
            bytes[sent.flow.index() - 1] += u64::from(sent.bytes());
            if sent.flow.0 == 2 {
                break;
            }
            bed.put(datagram((1, 9, 1), 0, 1500));
        }
    }
    assert_shares(&bytes, &[1, 1]);
}

#[test]
fn drr_drops_from_the_longest() {
    let config = DrrConfig { limit_bytes: 100_000, ..DrrConfig::new(DrrKey::Source) };
    let mut bed = Bed::new(Drr::new(config));
    for n in 0..10 {
        assert_eq!(bed.put(datagram((2, 9, 2), n, 1500)), []);
    }
    for n in 0..1_000 {
        for (dropped, _) in bed.put(datagram((1, 9, 1), n, 1500)) {
            assert_eq!(dropped.flow.0, 1);
        }
    }
    assert!((98_500..=100_000).contains(&bed.queue.bytes()));
}
