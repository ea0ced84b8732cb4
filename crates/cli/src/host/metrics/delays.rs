//! Delays since the start, in the few buckets that Prometheus gets.

use std::sync::OnceLock;

use lowtail_kernel::{BUCKETS, Histogram};

/// Bounds of buckets: from 1 us, doubling, to half a second.
const DOUBLINGS: usize = 20;

/// Delays by bucket. A bucket of [`Histogram`] holds 32 bits and stops there; totals of months are longer.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    counts: [u64; DOUBLINGS + 1],
    sum_ns: u64,
}

impl Delays {
    /// Adds an interval's.
    pub(super) fn add(&mut self, waits: &Histogram) {
        static BELOW: OnceLock<[u8; BUCKETS]> = OnceLock::new();
        let below = BELOW.get_or_init(|| std::array::from_fn(below));
        for (&count, &below) in waits.buckets().iter().zip(below).filter(|(count, _)| **count > 0) {
            self.counts[usize::from(below)] += u64::from(count);
        }
        self.sum_ns = self.sum_ns.saturating_add(waits.sum_ns());
    }

    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All together, in seconds.
    pub(super) fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Upper bounds in seconds, and how many are below each and not below the one before.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = (0..DOUBLINGS).map(bound_us).map(|us| us / 1e6).chain([f64::INFINITY]);
        bounds.zip(self.counts).collect()
    }
}

fn bound_us(doubling: usize) -> f64 {
    (1u64 << doubling) as f64
}

/// A kernel's bucket belongs below the first bound that it does not reach beyond.
fn below(bucket: usize) -> u8 {
    let (_, next_ns) = Histogram::bounds_ns(bucket);
    let below = (0..DOUBLINGS).find(|&at| bound_us(at) * 1e3 >= (next_ns - 1) as f64);
    below.unwrap_or(DOUBLINGS) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_goes_on_beyond_32_bits() {
        let mut bytes = vec![0; Histogram::SIZE];
        let at = 24 + 4 * Histogram::bucket_of(3_000);
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
        let full = Histogram::from_bytes(&bytes).expect("a histogram");
        let mut delays = Delays::default();
        delays.add(&full);
        delays.add(&full);
        assert_eq!(delays.count(), 2 * u64::from(u32::MAX));
        let (bound_s, count) = delays.buckets()[2];
        assert_eq!((bound_s, count), (4e-6, delays.count()));
    }
}
