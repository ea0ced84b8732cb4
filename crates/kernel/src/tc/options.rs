//! Options of disciplines that we put on an interface, as `linux/pkt_sched.h` lays them out.

use super::netlink::{Attribute, nest};

/// `PSCHED_SHIFT` of the kernel's `net/pkt_sched.h`: times are told in units of 64 ns.
const TICK_SHIFT: u32 = 6;
/// `TC_LINKLAYER_ETHERNET`: without it, a table of times would be asked for.
const ETHERNET: u8 = 1;

/// Bytes per second that a limit is told as if it is none: 1 Tbit/s.
const UNLIMITED: u64 = 125_000_000_000;
/// Highest rate from one packet to the next where packets are cut, bytes per second: 10 Gbit/s. It only has to be far
/// above rates at which we cut.
const PEAK: u64 = 1_250_000_000;

/// Units in which at least `bytes` pass at `rate` bytes per second.
fn ticks(bytes: u64, rate: u64) -> u32 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    // What the kernel makes of it is rounded down again, to bytes: one unit more.
    u32::try_from((ns >> TICK_SHIFT) + 1).unwrap_or(u32::MAX)
}

/// `struct tc_ratespec`.
fn rate_spec(rate: u64) -> Vec<u8> {
    let mut spec = vec![0, ETHERNET];
    spec.extend([0u16; 3].map(u16::to_ne_bytes).concat());
    spec.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    spec
}

/// With the exact rate if it is beyond 32 bits.
fn with_rate(mut all: Vec<Attribute>, kind: u16, rate: u64) -> Vec<Attribute> {
    if rate > u64::from(u32::MAX) {
        all.push((kind, rate.to_ne_bytes().to_vec()));
    }
    all
}

/// Bytes per second and burst of a tbf that only cuts: more than what passes where packets are cut, less than `PEAK`.
pub(super) const CUTTER: (u64, u64) = (PEAK / 2, 1 << 18);

/// tbf: so many bytes per second, `burst` at once; what is longer than `cut`, if given, is cut into frames.
pub(super) fn tbf(rate: u64, burst: u64, cut: Option<u64>) -> Vec<u8> {
    let mut parms = rate_spec(rate);
    parms.extend(rate_spec(if cut.is_some() { PEAK } else { 0 }));
    let peak = cut.map_or(0, |bytes| ticks(bytes, PEAK));
    // No limit of its own: something else waits inside.
    parms.extend([0, ticks(burst, rate), peak].map(u32::to_ne_bytes).concat());
    nest(&with_rate(vec![(1, parms)], 4, rate))
}

/// prio: which of `bands` is for each of sixteen priorities.
pub(super) fn prio(bands: u32, map: [u8; 16]) -> Vec<u8> {
    [&bands.to_ne_bytes()[..], &map].concat()
}

/// htb: version 3; what is for no class goes to class `default`.
pub(super) fn htb(default: u32) -> Vec<u8> {
    let init = [3, 10, default, 0, 0].map(u32::to_ne_bytes).concat();
    nest(&[(2, init)])
}

/// A class of htb: `rate` and `ceil` in bytes per second, with their bursts in units of 64 ns; those of a lower `prio` go first, those of
/// the same take turns of `quantum` bytes.
fn class(rate: (u64, u32), ceil: (u64, u32), quantum: u32, prio: u32) -> Vec<u8> {
    let mut parms = [rate_spec(rate.0), rate_spec(ceil.0)].concat();
    parms.extend([rate.1, ceil.1, quantum, 0, prio].map(u32::to_ne_bytes).concat());
    nest(&with_rate(with_rate(vec![(1, parms)], 6, rate.0), 7, ceil.0))
}

/// No limit, for a rate of htb.
fn unlimited() -> (u64, u32) {
    (UNLIMITED, ticks(1 << 26, UNLIMITED))
}

/// A class of htb that no rate limits.
pub(super) fn htb_class(prio: u32, quantum: u32) -> Vec<u8> {
    class(unlimited(), unlimited(), quantum, prio)
}

/// A class of htb with classes below it, which together get no more than `rate` bytes per second, and `burst` at once.
pub(super) fn htb_rate(rate: u64, burst: u64) -> Vec<u8> {
    let rate = (rate, ticks(burst, rate));
    class(rate, rate, 1 << 16, 0)
}

/// A class below that. It lives on what it borrows, in the order of `prio`. What a class has of its own is not in order, so it has as
/// little as there can be: a packet each minute (`htb_class_mode`, `htb_accnt_tokens`).
pub(super) fn htb_borrower(prio: u32, quantum: u32) -> Vec<u8> {
    class((1, 1), unlimited(), quantum, prio)
}

/// fq_codel with so many queues for flows, which hold so many bytes of memory; all else as the kernel has it.
pub(super) fn fq_codel(flows: u32, memory: u32) -> Vec<u8> {
    nest(&[(5, flows.to_ne_bytes().to_vec()), (9, memory.to_ne_bytes().to_vec())])
}

/// bfifo: so many bytes may wait.
pub(super) fn bfifo(bytes: u32) -> Vec<u8> {
    bytes.to_ne_bytes().to_vec()
}

/// cake: so many bytes per second, three tins, and whether it cuts long segments.
pub(super) fn cake(rate: u64, split: bool) -> Vec<u8> {
    const DIFFSERV3: u32 = 0;
    nest(&[
        (2, rate.to_ne_bytes().to_vec()),
        (3, DIFFSERV3.to_ne_bytes().to_vec()),
        (17, u32::from(split).to_ne_bytes().to_vec()),
    ])
}
