//! Latency histograms.

use std::borrow::Cow;

use hdrhistogram::iterators::IterationValue;

use crate::time::Duration;

/// Longest span that a histogram tells apart: 1000 s. Longer ones count as that.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// So many spans are kept as they are before they are counted: 4 KB of them.
const RECENT_MAX: usize = 1_024;

/// The bins of a histogram.
type Bins = hdrhistogram::Histogram<u32>;

/// A distribution of spans: an HDR histogram of nanoseconds with 3 significant
/// digits, so a percentile is at most 0.1 % above the true one (and never below).
/// Count, minimum, maximum and mean are exact.
///
/// A host of 1,000 vCPUs has 2,000 of them: 240 MB of bins, of which each span finds another one outside of all caches. Therefore spans are
/// noted one behind the other first, and counted many at a time; the bins of who has few stay untouched.
#[derive(Debug, Clone)]
pub struct Hist {
    /// Nanoseconds that are not in `bins` yet; up to 4 s, so that they take half of the room.
    recent: Vec<u32>,
    bins: Bins,
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
    /// An empty histogram, with all its memory (124 KB) in place.
    pub fn new() -> Self {
        let bins = Bins::new_with_bounds(1, LONGEST_NS, 3);
        Hist {
            recent: Vec::with_capacity(RECENT_MAX),
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
        self.note(span.as_ns());
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
        self.settle().saturating_record_n(span.as_ns(), times);
        self.n += u64::from(times);
        self.min = self.min.min(span);
        self.max = self.max.max(span);
        self.sum_ps += u128::from(span.as_ps()) * u128::from(times);
    }

    #[inline]
    fn note(&mut self, ns: u64) {
        let Ok(short) = u32::try_from(ns) else { return self.settle().saturating_record(ns) };
        if self.recent.len() == RECENT_MAX {
            self.settle();
        }
        self.recent.push(short);
    }

    /// Puts what is recent into the bins, and returns these.
    #[cold]
    fn settle(&mut self) -> &mut Bins {
        let Hist { recent, bins, .. } = self;
        recent.drain(..).for_each(|ns| bins.saturating_record(u64::from(ns)));
        bins
    }

    /// The bins with all that is recent in them.
    fn all(&self) -> Cow<'_, Bins> {
        if self.recent.is_empty() {
            return Cow::Borrowed(&self.bins);
        }
        let mut bins = self.bins.clone();
        self.recent.iter().for_each(|&ns| bins.saturating_record(u64::from(ns)));
        Cow::Owned(bins)
    }

    /// What was counted, to the width of a bin: (span, how often), the shortest first.
    pub fn counts(&self) -> impl Iterator<Item = (Duration, u32)> + use<> {
        let bins = self.all();
        let count = |bin: IterationValue<u32>| {
            let span = Duration::from_ns(bins.highest_equivalent(bin.value_iterated_to()));
            (span.clamp(self.min(), self.max()), bin.count_at_value())
        };
        bins.iter_recorded().map(count).collect::<Vec<_>>().into_iter()
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Hist) {
        self.settle().add(&other.bins).expect("equal bounds");
        other.recent.iter().for_each(|&ns| self.note(u64::from(ns)));
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
        let mut bins = self.all().into_owned();
        bins.subtract(&*earlier.all()).expect("an earlier state of the same");
        let n = self.n - earlier.n;
        let ns = |bound: fn(&Bins) -> u64| Duration::from_ns(bound(&bins));
        let (min, max) = match n {
            0 => (Duration::MAX, Duration::ZERO),
            _ => (ns(|bins| bins.min()).max(self.min), ns(|bins| bins.max()).min(self.max)),
        };
        let (recent, sum_ps) = (Vec::with_capacity(RECENT_MAX), self.sum_ps - earlier.sum_ps);
        Hist { recent, bins, n, min, max, sum_ps }
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

    /// The standard deviation in nanoseconds, over the number of spans (not one less), or zero if there are none. It is that of the
    /// middles of the bins, none of which is farther than 0.05 % from the spans in it: within 0.05 % of the root of the mean square.
    /// Recording costs nothing more for it.
    pub fn std_dev_ns(&self) -> f64 {
        let bins = self.all();
        let counts = || {
            bins.iter_recorded().map(|bin| {
                let ns = bins.median_equivalent(bin.value_iterated_to());
                (ns as f64, f64::from(bin.count_at_value()))
            })
        };
        let n = self.n.max(1) as f64;
        // From the mean of the same middles, and in two passes: nothing that is large cancels out.
        let mean_ns = counts().map(|(ns, times)| ns * times).sum::<f64>() / n;
        let square =
            counts().map(|(ns, times)| (ns - mean_ns) * (ns - mean_ns) * times).sum::<f64>() / n;
        square.sqrt()
    }

    /// The smallest span that at least `q` (0 to 1) of all spans do not exceed:
    /// nearest rank, up to the width of a bin, within the exact minimum and maximum.
    pub fn quantile(&self, q: f64) -> Duration {
        let span = Duration::from_ns(self.all().value_at_quantile(q));
        span.clamp(self.min(), self.max())
    }

    /// Spans longer than or as long as `limit`, to the width of a bin.
    pub fn at_least(&self, limit: Duration) -> u64 {
        let limit_ns = limit.as_ns().max(1);
        let bins = self.all();
        let below = bins
            .iter_recorded()
            .take_while(|bin| bins.highest_equivalent(bin.value_iterated_to()) < limit_ns);
        self.n - below.map(|bin| u64::from(bin.count_at_value())).sum::<u64>()
    }

    /// The distribution function as steps: (span, share of spans up to it).
    pub fn steps(&self) -> impl Iterator<Item = (Duration, f64)> + use<> {
        let n = self.n as f64;
        let mut seen = 0u64;
        self.counts().map(move |(span, times)| {
            seen += u64::from(times);
            (span, seen as f64 / n)
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
        assert_eq!((hist.at_least(Duration::ZERO), hist.std_dev_ns()), (0, 0.0));
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

    /// Against the definition, on the spans themselves: also for those far from zero that lie close together, and for what was merged,
    /// taken off again, or counted often.
    #[test]
    fn the_standard_deviation_is_within_a_bin() {
        let mut rng = Rng::new(5, "spread");
        for (offset, mean) in [(0, 100), (60, 2), (1_000, 1), (0, 1_000_000)] {
            let spans: Vec<Duration> = (0..5_000)
                .map(|_| Duration::from_us(offset) + rng.exponential(Duration::from_us(mean)))
                .collect();
            let (mut hist, mut halves) = (Hist::new(), (Hist::new(), Hist::new()));
            for (i, &span) in spans.iter().enumerate() {
                hist.record(span);
                if i < 2_000 { halves.0.record(span) } else { halves.1.record(span) }
            }
            let mean_of = |spans: &[Duration], f: &dyn Fn(f64) -> f64| {
                spans.iter().map(|span| f(span.as_ps() as f64 / 1e3)).sum::<f64>()
                    / spans.len() as f64
            };
            let near = |hist: &Hist, spans: &[Duration]| {
                let mean_ns = mean_of(spans, &|ns| ns);
                let right_ns = mean_of(spans, &|ns| (ns - mean_ns).powi(2)).sqrt();
                // A nanosecond more where a bin is one wide.
                let error_ns = 5e-4 * mean_of(spans, &|ns| ns * ns).sqrt() + 1.0;
                let ours_ns = hist.std_dev_ns();
                assert!((ours_ns - right_ns).abs() <= error_ns, "{ours_ns} for {right_ns}");
            };
            near(&hist, &spans);
            near(&hist.since(&halves.0), &spans[2_000..]);
            halves.0.merge(&halves.1);
            assert_eq!(halves.0.std_dev_ns(), hist.std_dev_ns());
        }
        // Three of 1 us and one of 5 us: the mean is 2, and (3 x 1 + 9) / 4 = 3.
        let mut few = Hist::new();
        few.record_n(Duration::from_us(1), 3);
        few.record(Duration::from_us(5));
        assert!((few.std_dev_ns() - 3f64.sqrt() * 1e3).abs() < 3.0, "{}", few.std_dev_ns());
        assert_eq!(few.since(&few).std_dev_ns(), 0.0);
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

    /// Spans that are still noted one by one are those of the bins, also when they are more than there is room for, or too long for it.
    #[test]
    fn what_is_noted_counts_as_in_bins() {
        let mut rng = Rng::new(8, "noted");
        for n in [1, RECENT_MAX, RECENT_MAX + 1, 3 * RECENT_MAX + 7] {
            let (mut noted, mut binned, mut both) = (Hist::new(), Hist::new(), Hist::new());
            for _ in 0..n {
                let span = rng.exponential(Duration::from_s(1));
                noted.record(span);
                binned.record_n(span, 1);
            }
            assert!(noted.counts().eq(binned.counts()));
            both.merge(&noted);
            both.merge(&binned);
            let twice = binned.counts().map(|(span, times)| (span, 2 * times));
            assert!(both.counts().eq(twice));
            assert_eq!(
                noted.at_least(Duration::from_ms(700)),
                binned.at_least(Duration::from_ms(700))
            );
        }
    }

    #[test]
    fn beyond_the_range_still_counts() {
        let mut hist = Hist::new();
        hist.record(Duration::from_s(5_000));
        assert_eq!((hist.n(), hist.max()), (1, Duration::from_s(5_000)));
    }
}
