//! A figure over several runs.

use lowtail_out::seconds;
use serde::{Serialize, Serializer};

/// The least and the greatest of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Range {
    /// Of these values; `None` if there are none, or one of them is not known.
    pub fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        Some(Range { min, median: values[values.len() / 2], max })
    }

    /// The middle as text, with the least and the greatest where they look otherwise.
    pub fn text(self, of: impl Fn(f64) -> String) -> String {
        let [min, median, max] = [self.min, self.median, self.max].map(of);
        if min == max { median } else { format!("{median} ({min} to {max})") }
    }

    pub(crate) fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Range { min: of(self.min), median: of(self.median), max: of(self.max) }
    }
}

/// As seconds, of microseconds.
pub(crate) fn as_seconds<S: Serializer>(
    range: &Option<Range>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    range.map(|range| range.map(seconds::of_us)).serialize(serializer)
}

/// As parts of one, of percent.
pub(crate) fn as_ratio<S: Serializer>(
    range: &Option<Range>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    range.map(|range| range.map(|percent| percent / 100.0)).serialize(serializer)
}

/// A time in microseconds, for people.
pub fn time(us: f64) -> String {
    match us {
        us if us < 100.0 => format!("{us:.1} us"),
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 10_000_000.0 => format!("{:.2} s", us / 1e6),
        us => format!("{:.1} s", us / 1e6),
    }
}
