//! A rate held by borrowing: exact in the long run; who comes while a packet is paid for waits for the rest of that.

use lowtail_engine::{Duration, Time};
use lowtail_net::queue::Queue;
use lowtail_net::queue::htb::Htb;
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::rate::Rate;
use proptest::prelude::*;

use crate::bed::{Bed, datagram, random};

const FLOW: (u32, u32, u32) = (1, 2, 3);

fn htb(mbit_s: u64, burst: u32) -> Htb {
    let config = SmallFirstQueueConfig { codel: None, ..SmallFirstQueueConfig::default() };
    let inner: Box<dyn Queue> = Box::new(SmallFirstQueue::new(config));
    Htb::new(Rate::from_mbit_s(mbit_s), burst, inner)
}

/// Bits times picoseconds of so many bytes of a frame's payload, as Linux counts them.
fn cost(bytes: u32) -> u128 {
    u128::from(bytes + 14) * 8_000_000_000_000
}

proptest! {
    #![proptest_config(random(50))]

    /// With packets waiting all the time, each leaves at the picosecond at which those before it have been paid for: the
    /// burst is all that may be in advance.
    #[test]
    fn each_leaves_when_those_before_it_are_paid_for(
        mbit_s in 1u64..50_000,
        burst in 1_500u32..20_000,
        sizes in prop::collection::vec(28u32..=1500, 20..200),
    ) {
        let mut bed = Bed::new(htb(mbit_s, burst));
        for (n, &bytes) in sizes.iter().enumerate() {
            prop_assert_eq!(bed.put(datagram(FLOW, n as u64, bytes)), []);
        }
        let rate = u128::from(mbit_s * 1_000_000);
        let burst = u128::from(burst) * 8_000_000_000_000;
        let mut before = 0;
        while let Some(sent) = bed.next() {
            let owed = u128::saturating_sub(before, burst).div_ceil(rate);
            prop_assert_eq!(u128::from(bed.now.as_ps()), owed);
            before += cost(sent.bytes());
        }
        prop_assert_eq!(before, sizes.iter().map(|&bytes| cost(bytes)).sum::<u128>());
    }
}

/// A small packet that comes while a long one is paid for waits for the rest, whatever its own length: `Tbf` over bands lets it
/// go as soon as there are tokens for itself.
#[test]
fn who_comes_meanwhile_waits_for_the_rest() {
    let mut bed = Bed::new(htb(100, 1514));
    for n in 0..2 {
        bed.put(datagram(FLOW, n, 1500));
    }
    // The bucket holds the first; the second may go at once, and takes 121.12 us.
    assert_eq!(bed.get().0.map(|p| p.seq), Some(0));
    assert_eq!(bed.get().0.map(|p| p.seq), Some(1));
    bed.pass(Duration::from_us(20));
    bed.put(datagram((4, 2, 5), 9, 100));
    assert_eq!(bed.get().0, None);
    assert_eq!(bed.next().map(|p| p.seq), Some(9));
    assert_eq!(bed.now, Time::ZERO + Duration::from_ns(121_120));
}

/// However long nobody sends, a burst is all that is saved up, and one packet more.
#[test]
fn a_pause_saves_up_a_burst() {
    let mut bed = Bed::new(htb(100, 10_140));
    for _ in 0..3 {
        for n in 0..20 {
            bed.put(datagram(FLOW, n, 1_000));
        }
        assert_eq!(std::iter::from_fn(|| bed.get().0).count(), 11);
        while bed.next().is_some() {}
        bed.pass(Duration::from_s(1));
    }
}
