//! Histograms of delays, as the programs in the kernel keep them (`bpf/hist.h`).

use lowtail_out::seconds;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Buckets of a histogram: sixteen to each doubling, up to 2^38 ns.
pub const BUCKETS: usize = 560;

/// Delays in nanoseconds. A bucket is at most a sixteenth as wide as what is in it, so that a
/// percentile, told as the middle of its bucket, is off by 3.2 % at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    buckets: Vec<u32>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { count: 0, sum_ns: 0, max_ns: 0, buckets: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// Bytes of `struct lt_hist`.
    pub const SIZE: usize = 24 + 4 * BUCKETS;

    /// A histogram as the kernel has it; `None` if it is not as long as one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::SIZE {
            return None;
        }
        let (head, buckets) = bytes.split_at(24);
        let word = |i: usize| u64::from_ne_bytes(head[8 * i..8 * i + 8].try_into().unwrap());
        let buckets =
            buckets.chunks_exact(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap()));
        Some(Histogram {
            count: word(0),
            sum_ns: word(1),
            max_ns: word(2),
            buckets: buckets.collect(),
        })
    }

    /// The bucket of a delay.
    pub fn bucket_of(ns: u64) -> usize {
        if ns < 16 {
            return ns as usize;
        }
        let e = ns.ilog2() as usize;
        ((e - 3) * 16 + ((ns >> (e - 4)) & 15) as usize).min(BUCKETS - 1)
    }

    /// The least delay of a bucket, and the least of the next.
    pub fn bounds_ns(bucket: usize) -> (u64, u64) {
        let least = |bucket: usize| match bucket {
            0..16 => bucket as u64,
            _ => (16 + (bucket as u64 & 15)) << (bucket / 16 - 1),
        };
        (least(bucket), least(bucket + 1))
    }

    /// Notes a delay.
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        let bucket = &mut self.buckets[Self::bucket_of(ns)];
        *bucket = bucket.saturating_add(1);
    }

    /// Adds what another has, as for all vCPUs of a VM.
    pub fn merge(&mut self, other: &Histogram) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (mine, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*more);
        }
    }

    /// What has come since `earlier`, of the same series. The greatest delay in between is
    /// not known exactly if an earlier one was greater: then it is the end of the last bucket with something in it.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let both = self.buckets.iter().zip(&earlier.buckets);
        // Counters of the kernel wrap; so does the difference.
        let buckets: Vec<u32> = both.map(|(now, then)| now.wrapping_sub(*then)).collect();
        let last = buckets.iter().rposition(|&count| count > 0);
        let max_ns = match last {
            None => 0,
            Some(_) if self.max_ns > earlier.max_ns => self.max_ns,
            Some(bucket) => (Self::bounds_ns(bucket).1 - 1).min(self.max_ns),
        };
        Histogram {
            count: buckets.iter().map(|&count| u64::from(count)).sum(),
            sum_ns: self.sum_ns.wrapping_sub(earlier.sum_ns),
            max_ns,
            buckets,
        }
    }

    /// How many delays.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All delays together.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The greatest delay; 0 if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Delays in each bucket.
    pub fn buckets(&self) -> &[u32] {
        &self.buckets
    }

    /// How many delays were at least so long, up to the width of a bucket.
    pub fn at_least(&self, ns: u64) -> u64 {
        self.buckets[Self::bucket_of(ns)..].iter().map(|&count| u64::from(count)).sum()
    }

    /// The delay that the given share (0 to 1) of delays does not exceed, in microseconds: the middle of
    /// its bucket, never more than the greatest. `None` if there is none.
    pub fn percentile_us(&self, share: f64) -> Option<f64> {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        })?;
        let (least, next) = Self::bounds_ns(bucket);
        Some(((least + next) as f64 / 2.0).min(self.max_ns as f64) / 1e3)
    }
}

/// JSON has the figures that people ask for, in seconds.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let s = |share| self.percentile_us(share).map(seconds::of_us);
        let mut out = serializer.serialize_struct("Histogram", 6)?;
        out.serialize_field("count", &self.count)?;
        out.serialize_field("sum_seconds", &seconds::of_ns(self.sum_ns))?;
        out.serialize_field("p50_seconds", &s(0.5))?;
        out.serialize_field("p99_seconds", &s(0.99))?;
        out.serialize_field("p99_9_seconds", &s(0.999))?;
        out.serialize_field("max_seconds", &seconds::of_ns(self.max_ns))?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_within_the_bounds_of_its_bucket_and_those_are_narrow() {
        for ns in (0..200_000).chain((1..38).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1])) {
            let (least, next) = Histogram::bounds_ns(Histogram::bucket_of(ns));
            assert!(least <= ns && ns < next, "{ns} in {least}..{next}");
            assert!(next - least <= (least / 16).max(1));
        }
        assert_eq!(Histogram::bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_has_come_since() {
        let mut all = Histogram::default();
        all.record(5_000_000);
        let before = all.clone();
        for _ in 0..99 {
            all.record(20_000);
        }
        all.record(1_000_000);
        let new = all.since(&before);
        assert_eq!(new.count(), 100);
        assert_eq!(new.sum_ns(), 99 * 20_000 + 1_000_000);
        let near = |us: Option<f64>, wanted: f64| (us.unwrap() / wanted - 1.0).abs() < 0.032;
        assert!(near(new.percentile_us(0.5), 20.0) && near(new.percentile_us(0.99), 20.0));
        assert!(near(new.percentile_us(1.0), 1000.0));
        assert!(new.max_ns() >= 1_000_000 && new.max_ns() < 1_064_000);
        assert_eq!(new.since(&new).percentile_us(0.5), None);
    }
}
