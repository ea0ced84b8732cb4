//! Latency histograms.

use crate::time::Duration;

/// Longest span that a histogram tells apart: 1000 s. Longer ones count as that.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// A distribution of spans: an HDR histogram of nanoseconds with 3 significant
/// digits, so a percentile is at most 0.1 % above the true one (and never below).
/// Count, minimum, maximum and mean are exact.
#[derive(Debug, Clone)]
pub struct Hist {
    bins: hdrhistogram::Histogram<u32>,
    n: u64,
    min: Duration,
    max: Duration,
    sum_ps: u128,
}

impl Default for Hist {
    fn default() -> Self {
        Self::new()
    }
}

impl Hist {
    /// An empty histogram, with all its memory (120 KB) in place.
    pub fn new() -> Self {
        let bins = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, 3);
        Hist {
            bins: bins.expect("constant bounds are valid"),
            n: 0,
            min: Duration::MAX,
            max: Duration::ZERO,
            sum_ps: 0,
        }
    }

    /// Counts one span.
    #[inline]
    pub fn record(&mut self, span: Duration) {
        self.bins.saturating_record(span.as_ns());
        self.n += 1;
        self.min = self.min.min(span);
        self.max = self.max.max(span);
        self.sum_ps += u128::from(span.as_ps());
    }

    /// Counts a span `times` times.
    pub fn record_n(&mut self, span: Duration, times: u32) {
        if times == 0 {
            return;
        }
        self.bins.saturating_record_n(span.as_ns(), times);
        self.n += u64::from(times);
        self.min = self.min.min(span);
        self.max = self.max.max(span);
        self.sum_ps += u128::from(span.as_ps()) * u128::from(times);
    }

    /// What was counted, to the width of a bin: (span, how often), the shortest first.
    pub fn counts(&self) -> impl Iterator<Item = (Duration, u32)> + '_ {
        self.bins.iter_recorded().map(|bin| {
            let span = Duration::from_ns(self.bins.highest_equivalent(bin.value_iterated_to()));
            (span.clamp(self.min(), self.max()), bin.count_at_value())
        })
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Hist) {
        self.bins.add(&other.bins).expect("equal bounds");
        self.n += other.n;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum_ps += other.sum_ps;
    }

    /// What was counted since this histogram was `earlier`. Its minimum and maximum are known to the width of a bin.
    ///
    /// # Panics
    /// If `earlier` has counted something that this one has not.
    #[must_use]
    pub fn since(&self, earlier: &Hist) -> Hist {
        let mut bins = self.bins.clone();
        bins.subtract(&earlier.bins).expect("an earlier state of the same");
        let n = self.n - earlier.n;
        let ns = |bound: fn(&hdrhistogram::Histogram<u32>) -> u64| Duration::from_ns(bound(&bins));
        let (min, max) = match n {
            0 => (Duration::MAX, Duration::ZERO),
            _ => (ns(|bins| bins.min()).max(self.min), ns(|bins| bins.max()).min(self.max)),
        };
        Hist { n, min, max, sum_ps: self.sum_ps - earlier.sum_ps, bins }
    }

    /// Spans counted.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The shortest span, or zero if there is none.
    pub fn min(&self) -> Duration {
        if self.n == 0 { Duration::ZERO } else { self.min }
    }

    /// The longest span, or zero if there is none.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The mean, or zero if there is nothing to average.
    pub fn mean(&self) -> Duration {
        let mean = self.sum_ps.checked_div(u128::from(self.n)).unwrap_or(0);
        Duration::from_ps(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The smallest span that at least `q` (0 to 1) of all spans do not exceed:
    /// nearest rank, up to the width of a bin, within the exact minimum and maximum.
    pub fn quantile(&self, q: f64) -> Duration {
        let span = Duration::from_ns(self.bins.value_at_quantile(q));
        span.clamp(self.min(), self.max())
    }

    /// Spans longer than or as long as `limit`, to the width of a bin.
    pub fn at_least(&self, limit: Duration) -> u64 {
        let limit_ns = limit.as_ns().max(1);
        let below = self
            .bins
            .iter_recorded()
            .take_while(|bin| self.bins.highest_equivalent(bin.value_iterated_to()) < limit_ns);
        self.n - below.map(|bin| u64::from(bin.count_at_value())).sum::<u64>()
    }

    /// The distribution function as steps: (span, share of spans up to it).
    pub fn steps(&self) -> impl Iterator<Item = (Duration, f64)> + '_ {
        let mut seen = 0u64;
        self.counts().map(move |(span, times)| {
            seen += u64::from(times);
            (span, seen as f64 / self.n as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn empty_has_no_values() {
        let hist = Hist::new();
        assert_eq!((hist.n(), hist.min(), hist.max()), (0, Duration::ZERO, Duration::ZERO));
        assert_eq!((hist.mean(), hist.quantile(0.99)), (Duration::ZERO, Duration::ZERO));
        assert_eq!(hist.at_least(Duration::ZERO), 0);
    }

    /// What comes after a moment is what a histogram that began then has, to the width of a bin at both ends.
    #[test]
    fn what_was_counted_since() {
        let mut rng = Rng::new(4, "since");
        let (mut all, mut late, mut early) = (Hist::new(), Hist::new(), Hist::new());
        for i in 0..5_000 {
            let span = rng.exponential(Duration::from_us(100));
            all.record(span);
            if i < 2_000 { early.record(span) } else { late.record(span) }
        }
        let since = all.since(&early);
        assert_eq!((since.n(), since.mean()), (late.n(), late.mean()));
        for q in [0.0, 0.1, 0.5, 0.99, 1.0] {
            let (ours, right) = (since.quantile(q).as_us_f64(), late.quantile(q).as_us_f64());
            assert!((ours - right).abs() <= 0.001 * right + 0.001, "{q}: {ours} for {right}");
        }
        let none = all.since(&all);
        assert_eq!((none.n(), none.min(), none.max()), (0, Duration::ZERO, Duration::ZERO));
    }

    /// Against the definition, on the sorted samples themselves.
    #[test]
    fn quantiles_are_nearest_rank_within_a_bin() {
        let mut rng = Rng::new(3, "hist");
        let mut spans: Vec<_> =
            (0..9_999).map(|_| rng.exponential(Duration::from_us(100))).collect();
        let mut hist = Hist::new();
        let mut halves = (Hist::new(), Hist::new());
        for (i, &span) in spans.iter().enumerate() {
            hist.record(span);
            if i % 2 == 0 { halves.0.record(span) } else { halves.1.record(span) }
        }
        spans.sort();
        halves.0.merge(&halves.1);
        for q in [0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = spans[((q * 9_999f64).ceil() as usize).max(1) - 1].as_us_f64();
            let ours = hist.quantile(q).as_us_f64();
            assert!((ours - exact).abs() <= 0.001 * exact + 0.001, "{q}: {ours} {exact}");
            assert_eq!(hist.quantile(q), halves.0.quantile(q));
        }
        let limit = Duration::from_us(230);
        let exact = spans.iter().filter(|&&s| s >= limit).count() as f64;
        assert!((hist.at_least(limit) as f64 - exact).abs() <= 3.0);
        assert_eq!(hist.max(), spans[9_998]);
        assert_eq!(hist.steps().last().map(|(_, share)| share), Some(1.0));
    }

    /// A histogram of the counts of another has all of its quantiles.
    #[test]
    fn counts_make_it_again() {
        let mut rng = Rng::new(6, "counts");
        let (mut hist, mut again) = (Hist::new(), Hist::new());
        (0..3_000).for_each(|_| hist.record(rng.exponential(Duration::from_us(100))));
        hist.counts().for_each(|(span, times)| again.record_n(span, times));
        assert_eq!((again.n(), again.min(), again.max()), (3_000, hist.min(), hist.max()));
        for q in [0.0, 0.25, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(again.quantile(q), hist.quantile(q));
        }
        let (mean, right) = (again.mean().as_us_f64(), hist.mean().as_us_f64());
        assert!((mean - right).abs() <= 0.001 * right, "{mean} for {right}");
    }

    #[test]
    fn beyond_the_range_still_counts() {
        let mut hist = Hist::new();
        hist.record(Duration::from_s(5_000));
        assert_eq!((hist.n(), hist.max()), (1, Duration::from_s(5_000)));
    }
}
