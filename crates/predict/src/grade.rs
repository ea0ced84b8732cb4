//! How far the simulator can be trusted with a recording: the errors of its figures under the scheduler under which it was recorded.

use std::fmt;

use serde::Serialize;

use crate::comparison::{Comparison, Pair, ratio};

/// Differences that are smaller, in microseconds, are none: a clock interrupt and its way are as long.
pub const TOLERANCE_US: f64 = 2.0;

/// Relative errors of the figures of all threads that have enough wake-ups, as medians and 90th percentiles over threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Errors {
    /// Of how many threads.
    pub threads: usize,
    /// Median of the relative errors, in parts of one.
    #[serde(rename = "median_error_ratio")]
    pub median: f64,
    /// Nine of ten are not above.
    #[serde(rename = "p90_error_ratio")]
    pub p90: f64,
}

/// A grade, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Letter {
    /// Medians within 10 %, 99th percentiles within 25 %, processor time within a percent of a CPU.
    Good,
    /// Medians within 25 %, 99th percentiles within 50 %, processor time within five percent of a CPU.
    Fair,
    /// Worse: a prediction from it says little.
    Poor,
}

/// How a run agrees with its recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Grade {
    /// The whole.
    pub grade: Letter,
    /// Of medians of waits after wake-ups.
    pub p50: Option<Errors>,
    /// Of their 90th percentiles.
    pub p90: Option<Errors>,
    /// Of their 99th percentiles.
    pub p99: Option<Errors>,
    /// The largest difference of processor time, in percent of a CPU.
    #[serde(rename = "cpu_error_ratio", serialize_with = "ratio")]
    pub cpu_percent: f64,
    /// Of numbers of switches.
    pub switches: Option<Errors>,
}

/// The relative error of `simulated`.
fn error(recorded: f64, simulated: f64, tolerance: f64) -> f64 {
    let beyond = ((simulated - recorded).abs() - tolerance).max(0.0);
    if recorded > 0.0 { beyond / recorded } else { beyond }
}

fn errors(mut all: Vec<f64>) -> Option<Errors> {
    all.sort_by(f64::total_cmp);
    let at = |q: f64| all[((q * all.len() as f64) as usize).min(all.len() - 1)];
    (!all.is_empty()).then(|| Errors { threads: all.len(), median: at(0.5), p90: at(0.9) })
}

impl Grade {
    /// The grade of `comparison`, by its threads.
    pub fn of(comparison: &Comparison) -> Self {
        let threads = &comparison.threads;
        let of = |figure: fn(&Pair) -> [Option<f64>; 2], tolerance: f64| {
            let both = threads.iter().filter_map(|pair| match figure(pair) {
                [Some(recorded), Some(simulated)] => Some(error(recorded, simulated, tolerance)),
                // One of them has too few wake-ups.
                [Some(_), None] => Some(1.0),
                [None, _] => None,
            });
            errors(both.collect())
        };
        let p50 = of(|pair| [pair.recorded.p50_us, pair.simulated.p50_us], TOLERANCE_US);
        let p90 = of(|pair| [pair.recorded.p90_us, pair.simulated.p90_us], TOLERANCE_US);
        let p99 = of(|pair| [pair.recorded.p99_us, pair.simulated.p99_us], TOLERANCE_US);
        let switches = of(
            |pair| {
                let switches = |of: u64| (of >= 20).then_some(of as f64);
                [switches(pair.recorded.switches), switches(pair.simulated.switches)]
            },
            0.0,
        );
        let cpu = threads
            .iter()
            .map(|pair| (pair.recorded.cpu_percent - pair.simulated.cpu_percent).abs());
        let cpu_percent = cpu.fold(0.0, f64::max);
        let within =
            |errors: Option<Errors>, limit: f64| errors.is_none_or(|of| of.median <= limit);
        let grade = if within(p50, 0.1) && within(p99, 0.25) && cpu_percent <= 1.0 {
            Letter::Good
        } else if within(p50, 0.25) && within(p99, 0.5) && cpu_percent <= 5.0 {
            Letter::Fair
        } else {
            Letter::Poor
        };
        Grade { grade, p50, p90, p99, cpu_percent, switches }
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Letter::Good => "good",
            Letter::Fair => "fair",
            Letter::Poor => "poor",
        })
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.grade)?;
        for (what, errors) in [("p50", self.p50), ("p99", self.p99)] {
            if let Some(Errors { median, threads, .. }) = errors {
                write!(
                    f,
                    "; {what} of {threads} threads {:.0} % off in the median",
                    100.0 * median
                )?;
            }
        }
        write!(f, "; processor time up to {:.1} % of a CPU off", self.cpu_percent)
    }
}
