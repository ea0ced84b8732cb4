//! How wake-up latency is distributed: recorded, and over several runs.

use lowtail_engine::Hist;

use crate::range::Range;

/// Of so many tails in each power of ten the time is kept.
const PER_DECADE: usize = 10;
/// Down to the hundred-thousandth part.
const TAILS: usize = 5 * PER_DECADE + 1;
/// So many waits are to be as long or longer: of fewer a tail says nothing.
const WAITS_MIN: f64 = 3.0;

/// Times from a wake-up to running, in microseconds, that a part of all wake-ups exceeds: number `n` is the time that
/// [`Distribution::tail`]`(n)` exceed. A distribution of few wake-ups has few of them, one of none has none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// In the recording.
    pub recorded: Vec<f64>,
    /// In the simulator as it was, over all runs.
    pub replayed: Vec<Range>,
    /// With the change.
    pub predicted: Vec<Range>,
}

impl Distribution {
    /// The part of all wake-ups that take longer than time number `n`: 1 is the shortest one.
    pub fn tail(n: usize) -> f64 {
        10_f64.powf(-(n as f64) / PER_DECADE as f64)
    }
}

/// Times that are exceeded, in microseconds; see [`Distribution`].
pub(crate) fn times(waits: &Hist) -> Vec<f64> {
    let tails = (0..TAILS).map(Distribution::tail);
    let known = tails.take_while(|tail| tail * waits.n() as f64 >= WAITS_MIN);
    known.map(|tail| waits.quantile(1.0 - tail).as_us_f64()).collect()
}

/// The ranges of several runs, as far as all have times.
pub(crate) fn ranges(runs: &[&[f64]]) -> Vec<Range> {
    let known = runs.iter().map(|run| run.len()).min().unwrap_or(0);
    (0..known).filter_map(|n| Range::of(runs.iter().map(|run| Some(run[n])))).collect()
}

#[cfg(test)]
mod tests {
    use lowtail_engine::Duration;

    use super::*;

    #[test]
    fn a_tail_is_exceeded_by_its_part() {
        let mut waits = Hist::default();
        assert!(times(&waits).is_empty());
        (1..=1000).for_each(|us| waits.record(Duration::from_us(us)));
        let found = times(&waits);
        // 1000 waits have 3 above the last: down to 10^-2.5.
        assert_eq!(found.len(), 26);
        for (n, &us) in found.iter().enumerate() {
            let expected = 1000.0 * (1.0 - Distribution::tail(n));
            assert!((us - expected).abs() <= 1.0 + expected / 500.0, "{n}: {us} {expected}");
        }
        let ranges = ranges(&[&found, &found[..5], &[9.0, 1.0, 1.0]]);
        assert_eq!(ranges.len(), 3);
        assert_eq!((ranges[0].min, ranges[0].max), (found[0], 9.0));
    }
}
