//! The token bucket: exact in the long run, bounded in the short one.

use lowtail_engine::{Duration, Time};
use lowtail_net::packet::Packet;
use lowtail_net::queue::Queue;
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::prio::Prio;
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::queue::tbf::Tbf;
use lowtail_net::rate::Rate;
use proptest::prelude::*;

use crate::bed::{Bed, datagram, random};

const FLOW: (u32, u32, u32) = (1, 2, 3);

proptest! {
    #![proptest_config(random(50))]

    /// Any window of `t` lets pass at most `burst + rate * t`; and with packets waiting all the
    /// time, the last one leaves at the picosecond at which the rate has paid for it.
    #[test]
    fn rate_and_burst(
        mbit_s in 1u64..50_000,
        burst in 1_500u32..20_000,
        sizes in prop::collection::vec(28u32..=1500, 20..200),
    ) {
        let rate = Rate::from_mbit_s(mbit_s);
        let mut bed = Bed::new(Tbf::fifo(rate, burst, u64::MAX));
        for (n, &bytes) in sizes.iter().enumerate() {
            prop_assert_eq!(bed.put(datagram(FLOW, n as u64, bytes)), []);
        }
        let mut left: Vec<(Time, u64)> = Vec::new();
        while let Some(sent) = bed.next() {
            left.push((bed.now, u64::from(sent.bytes())));
        }
        prop_assert_eq!(left.len(), sizes.len());
        // Bits times picoseconds; 8e12 to the byte.
        let paid = |span: Duration| u128::from(span.as_ps()) * u128::from(mbit_s * 1_000_000);
        for from in 0..left.len() {
            let mut bytes = 0;
            for to in from..left.len() {
                bytes += left[to].1;
                let most = u128::from(burst) * 8_000_000_000_000 + paid(left[to].0.since(left[from].0));
                prop_assert!(u128::from(bytes) * 8_000_000_000_000 <= most);
            }
        }
        let total: u128 = sizes.iter().map(|&bytes| u128::from(bytes)).sum();
        let owed = (total - total.min(u128::from(burst))) * 8_000_000_000_000;
        let exact = owed.div_ceil(u128::from(mbit_s * 1_000_000));
        prop_assert_eq!(u128::from(bed.now.as_ps()), exact);
    }
}

/// What is urgent and comes while another one waits for tokens goes first where the discipline within
/// is bands (`prio_peek`), whatever the bands are. htb and drr take a packet out to tell its length
/// (`qdisc_peek_dequeued`), and the urgent one waits behind it.
#[test]
fn an_urgent_packet_overtakes_one_that_waits_for_tokens() {
    let fifo = || Box::new(Fifo::new(FifoLimit::Packets(100), None)) as Box<dyn Queue>;
    let codel = || Box::new(FqCodel::new(FqCodelConfig::default())) as Box<dyn Queue>;
    assert_eq!(order(Box::new(Prio::new(vec![fifo(), fifo()]))), [9, 1, 2]);
    assert_eq!(order(Box::new(Prio::new(vec![codel(), codel()]))), [9, 1, 2]);
    let by_vm = SmallFirstQueueConfig { small_classes: 1, ..SmallFirstQueueConfig::default() };
    assert_eq!(order(Box::new(SmallFirstQueue::new(by_vm))), [1, 9, 2]);
}

fn order(inner: Box<dyn Queue>) -> Vec<u64> {
    let rate = Rate::from_mbit_s(100);
    let mut bed = Bed::new(Tbf::new(rate, 1500, inner));
    for n in 0..3 {
        bed.put(Packet { class: 1, ..datagram(FLOW, n, 1500) });
    }
    assert_eq!(bed.get().0.map(|p| p.seq), Some(0));
    assert_eq!(bed.get().0, None);
    assert_eq!((bed.queue.packets(), bed.queue.bytes()), (2, 3_000));
    bed.put(Packet { class: 0, ..datagram((4, 2, 5), 9, 100) });
    std::iter::from_fn(|| bed.next()).map(|p| p.seq).collect()
}

/// However long nobody sends, a burst is all that is saved up.
#[test]
fn a_pause_saves_up_a_burst() {
    let mut bed = Bed::new(Tbf::fifo(Rate::from_mbit_s(100), 10_000, 1_000_000));
    for _ in 0..3 {
        for n in 0..20 {
            bed.put(datagram(FLOW, n, 1_000));
        }
        assert_eq!(std::iter::from_fn(|| bed.get().0).count(), 10);
        while bed.next().is_some() {}
        bed.pass(Duration::from_s(1));
    }
}

#[test]
fn what_could_never_pass_is_dropped() {
    let mut bed = Bed::new(Tbf::fifo(Rate::from_mbit_s(1), 1000, 100_000));
    assert_eq!(bed.put(datagram(FLOW, 0, 1000)), []);
    assert_eq!(bed.put(datagram(FLOW, 1, 1001)).len(), 1);
}
