//! What of a policy's values Xen has in units of its own.

use lowtail_engine::Duration;

/// The weight of who has the usual one: `CSCHED_DEFAULT_WEIGHT` of `xen/common/sched/credit.c`, and `xl(1)`.
pub const WEIGHT: u16 = 256;
/// The same in a policy, as in `cpu.weight` of cgroup-v2.rst.
const POLICY_WEIGHT: u64 = 100;

/// Xen's weight for that of a policy: the same part of the usual one, in 16 bits.
pub fn weight(of_policy: u64) -> u16 {
    let weight = of_policy.saturating_mul(WEIGHT.into()) / POLICY_WEIGHT;
    weight.clamp(1, u16::MAX.into()) as u16
}

/// credit's slice for that of a policy, in whole milliseconds: not below it.
pub fn timeslice_ms(slice: Duration) -> u64 {
    slice.as_ns().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_part_of_the_usual_one() {
        let all = [0, 1, 50, 100, 400, 10_000, 25_600, u64::MAX].map(weight);
        assert_eq!(all, [1, 2, 128, 256, 1024, 25_600, 65_535, u16::MAX]);
    }

    #[test]
    fn a_slice_is_not_shorter_than_it_is_to_be() {
        let of = |us| timeslice_ms(Duration::from_us(us));
        assert_eq!([of(1), of(1_000), of(1_001), of(30_000)], [1, 1, 2, 30]);
    }
}
