//! Distributions: exact as long as memory allows, then histograms that say so.

use hdrhistogram::Histogram;
use lowtail_out::seconds;
use serde::Serialize;

use crate::clock::CpuHz;

/// One distribution keeps so many exact values (8 MiB).
pub const SAMPLES_MAX: usize = 1 << 20;
/// All distributions together keep so many exact values (128 MiB); beyond, those that have more
/// than [`SAMPLES_FAIR`] become histograms.
pub const SAMPLES_TOTAL_MAX: usize = 16 << 20;
/// Every distribution may keep so many exact values.
pub const SAMPLES_FAIR: usize = 4096;

/// Significant digits of the histograms: percentiles are then within 0.1 %.
const HISTOGRAM_DIGITS: u8 = 3;

/// The exact values that are left to all distributions together.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Budget(SAMPLES_TOTAL_MAX)
    }
}

/// Values in ticks.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    exact: Vec<u64>,
    histogram: Option<Box<Histogram<u64>>>,
    n: u64,
    min: u64,
    max: u64,
}

impl Samples {
    pub(crate) fn add(&mut self, ticks: u64, budget: &mut Budget) {
        self.min = if self.n == 0 { ticks } else { self.min.min(ticks) };
        self.max = self.max.max(ticks);
        self.n += 1;
        if let Some(histogram) = &mut self.histogram {
            record(histogram, ticks);
            return;
        }
        let full = self.exact.len() >= SAMPLES_MAX;
        if full || (budget.0 == 0 && self.exact.len() >= SAMPLES_FAIR) {
            budget.0 += self.exact.len().min(SAMPLES_TOTAL_MAX - budget.0);
            self.histogram = histogram_of([&std::mem::take(&mut self.exact)[..], &[ticks]]);
            return;
        }
        budget.0 = budget.0.saturating_sub(1);
        self.exact.push(ticks);
    }

    /// Several sample sets as one distribution.
    pub(crate) fn distribution(parts: &[&Samples], hz: CpuHz) -> Distribution {
        let some = || parts.iter().filter(|part| part.n > 0);
        let n: u64 = some().map(|part| part.n).sum();
        let min = some().map(|part| part.min).min();
        let max = some().map(|part| part.max).max();
        let exact = some().all(|part| part.histogram.is_none());
        let mut values: Vec<u64> = Vec::new();
        let mut merged = None;
        if exact {
            some().for_each(|part| values.extend(&part.exact));
            values.sort_unstable();
        } else {
            merged = histogram_of(some().map(|part| &part.exact[..]));
            if let Some(merged) = &mut merged {
                for histogram in some().filter_map(|part| part.histogram.as_deref()) {
                    // Both resize themselves, so adding cannot fail.
                    let _ = merged.add(histogram);
                }
            }
        }
        let percentile = |per_mille: u64| -> Option<f64> {
            let rank = rank(n, per_mille)?;
            let ticks = match &merged {
                None => *values.get(usize::try_from(rank - 1).ok()?)?,
                Some(merged) => {
                    let value = merged.value_at_quantile(per_mille as f64 / 1000.0);
                    value.clamp(min?, max?)
                }
            };
            Some(hz.us(ticks))
        };
        Distribution {
            n,
            min: min.map(|ticks| hz.us(ticks)),
            p50: percentile(500),
            p90: percentile(900),
            p99: percentile(990),
            p99_9: percentile(999),
            max: max.map(|ticks| hz.us(ticks)),
            exact,
        }
    }
}

/// Nearest rank: the smallest rank, counted from 1, with at least that share of the values at or
/// below it. In integers, for `0.999 * 1000` is not always 999 in floating point.
fn rank(n: u64, per_mille: u64) -> Option<u64> {
    let rank = (u128::from(n) * u128::from(per_mille)).div_ceil(1000);
    (n > 0).then(|| u64::try_from(rank.max(1)).unwrap_or(n))
}

fn histogram_of<'a>(slices: impl IntoIterator<Item = &'a [u64]>) -> Option<Box<Histogram<u64>>> {
    let mut histogram = Histogram::new(HISTOGRAM_DIGITS).ok()?;
    for &ticks in slices.into_iter().flatten() {
        record(&mut histogram, ticks);
    }
    Some(Box::new(histogram))
}

/// The histogram grows as needed; only a value near 2^64, centuries of ticks, would not fit.
fn record(histogram: &mut Histogram<u64>, ticks: u64) {
    let _ = histogram.record(ticks.min(1 << 62));
}

/// A distribution of times, in microseconds with the nanoseconds as fraction; in JSON in seconds.
///
/// Percentiles are by nearest rank: `p99` is the smallest value that occurs with at least 99 % of
/// the values at or below it; no value is made up between two others. With `exact`, every figure
/// is to the nanosecond what the records say. Without, there were too many values
/// ([`SAMPLES_MAX`]): `count`, `min` and `max` are still exact, percentiles are within 0.1 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values.
    #[serde(rename = "count")]
    pub n: u64,
    /// The smallest; like the others `None` if there is no value.
    #[serde(rename = "min_seconds", serialize_with = "seconds::some_us")]
    pub min: Option<f64>,
    /// The median.
    #[serde(rename = "p50_seconds", serialize_with = "seconds::some_us")]
    pub p50: Option<f64>,
    /// 90 % are at most this.
    #[serde(rename = "p90_seconds", serialize_with = "seconds::some_us")]
    pub p90: Option<f64>,
    /// 99 % are at most this.
    #[serde(rename = "p99_seconds", serialize_with = "seconds::some_us")]
    pub p99: Option<f64>,
    /// 99.9 % are at most this.
    #[serde(rename = "p99_9_seconds", serialize_with = "seconds::some_us")]
    pub p99_9: Option<f64>,
    /// The largest.
    #[serde(rename = "max_seconds", serialize_with = "seconds::some_us")]
    pub max: Option<f64>,
    /// Are the percentiles exact?
    pub exact: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::CpuHzSource;

    const HZ: CpuHz = CpuHz { hz: 1_000_000_000, source: CpuHzSource::Given };

    fn samples(values: impl Iterator<Item = u64>, budget: &mut Budget) -> Samples {
        let mut samples = Samples::default();
        values.for_each(|value| samples.add(value, budget));
        samples
    }

    #[test]
    fn nearest_rank() {
        // 1000 ns .. 10000 ns: of 10 values the 5th is the median, the 9th p90, the 10th p99.
        let samples = samples((1..=10).map(|i| i * 1000), &mut Budget::default());
        let d = Samples::distribution(&[&samples], HZ);
        assert_eq!((d.n, d.min, d.p50, d.p90), (10, Some(1.0), Some(5.0), Some(9.0)));
        assert_eq!((d.p99, d.p99_9, d.max), (Some(10.0), Some(10.0), Some(10.0)));
        assert!(d.exact);
        assert_eq!(rank(1000, 999), Some(999));
        assert_eq!(rank(1001, 999), Some(1000));
        assert_eq!(rank(1, 500), Some(1));
    }

    #[test]
    fn nothing_is_null() {
        let d = Samples::distribution(&[&Samples::default()], HZ);
        assert_eq!((d.n, d.min, d.p50, d.max), (0, None, None, None));
        let json = serde_json::to_string(&d).unwrap();
        assert!(json.starts_with(r#"{"count":0,"min_seconds":null,"p50_seconds":null"#), "{json}");
    }

    #[test]
    fn beyond_the_limit_a_histogram_that_says_so() {
        let n = SAMPLES_MAX as u64 + 1000;
        let mut budget = Budget::default();
        let one = samples((0..n).map(|i| 1_000_003 + i * 7), &mut budget);
        assert_eq!(budget.0, SAMPLES_TOTAL_MAX, "a histogram gives its exact values back");
        let other = samples([5_u64].into_iter(), &mut budget);
        let d = Samples::distribution(&[&one, &other], HZ);
        assert!(!d.exact);
        assert_eq!((d.n, d.min), (n + 1, Some(0.005)));
        assert_eq!(d.max, Some((1_000_003 + (n - 1) * 7) as f64 / 1000.0));
        let median = (1_000_003 + n / 2 * 7) as f64 / 1000.0;
        assert!((d.p50.unwrap() / median - 1.0).abs() < 0.001, "{:?} {median}", d.p50);
    }

    #[test]
    fn small_distributions_stay_exact_when_the_budget_is_spent() {
        let mut budget = Budget(10);
        let small = samples(0..SAMPLES_FAIR as u64, &mut budget);
        let large = samples(0..=SAMPLES_FAIR as u64, &mut budget);
        assert!(Samples::distribution(&[&small], HZ).exact);
        assert!(!Samples::distribution(&[&large], HZ).exact);
    }
}
