//! Weights: of a nice value, of a policy, and what they do to virtual time.

use crate::cgroup::{Policy, Thread};

/// The weight of nice 0, before scaling.
pub(super) const NICE_0: u64 = 1024;
/// No entity counts for less: `MIN_SHARES`.
pub(super) const LEAST: u64 = 2;

/// The weight of each nice value from -20 on, `sched_prio_to_weight` of the kernel: each step is
/// a factor of about 1.25, so that one step is about 10 % of a processor that two share.
#[rustfmt::skip]
const WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291,
    29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906,
    3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423,
    335, 272, 215, 172, 137,
    110, 87, 70, 56, 45,
    36, 29, 23, 18, 15,
];

/// The weight of `SCHED_IDLE`, `WEIGHT_IDLEPRIO`.
const IDLE: u64 = 3;

/// The weight of `thread` in a VM of weight `vm`. Outside of any group the VM's weight counts for
/// each of its threads, 256 for the usual one; the kernel knows no such thing.
pub(super) fn of_thread(thread: &Thread, vm: u16) -> u64 {
    let weight = match thread.policy {
        Policy::Idle => IDLE,
        _ => WEIGHTS[usize::from((thread.nice + 20).clamp(0, 39) as u8)],
    };
    match thread.cgroup {
        Some(_) => weight,
        None => (weight * u64::from(vm) / 256).max(LEAST),
    }
}

/// Run time in virtual time: a `weight` of nice 0 makes them equal (`calc_delta_fair`).
/// `shift` are the additional bits of weights, which do not count here.
pub(super) fn virtual_time(span: i64, weight: u64, shift: u32) -> i64 {
    let weight = (weight >> shift).max(LEAST) as i64;
    if weight == NICE_0 as i64 { span } else { span * NICE_0 as i64 / weight }
}
