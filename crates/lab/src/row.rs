//! Rows: the figures of one distribution in one case.

use lowtail_engine::{Duration, Hist};
use serde_json::{Map, Value};

use crate::estimate::Estimate;
use crate::metric::{self, TimeUnit};

/// The figures of one distribution in one case, and of the case around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The row's name: that of the case, with the VM's if the case has several rows.
    pub name: String,
    /// Values counted.
    pub n: u64,
    /// Unit of the times.
    pub unit: TimeUnit,
    /// Figures by name: those of [`metric::LATENCY`] (absent if `n` is 0), then others.
    pub figures: Vec<(String, f64)>,
    /// Half of the 95 % confidence interval of each, in the same order; empty after a run with one seed.
    pub intervals: Vec<f64>,
    /// The distribution function for drawing: (time, share of values that are longer).
    pub tail: Vec<(f64, f64)>,
    /// What the case's variables were.
    pub variables: Vec<(String, String)>,
    /// Whether all was measured that should be, within the limit of simulated time.
    pub complete: bool,
}

impl Row {
    /// A row of a case that has not run: it has no figures.
    pub(crate) fn empty(name: String, variables: Vec<(String, String)>, unit: TimeUnit) -> Self {
        let (figures, tail) = (Vec::new(), Vec::new());
        let intervals = Vec::new();
        Row { name, n: 0, unit, figures, intervals, tail, variables, complete: false }
    }

    /// The rows of one case after runs with several seeds as one: means, with the distribution of the first.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn mean(rows: Vec<Row>) -> Self {
        let figure =
            |name: &str| -> Vec<f64> { rows.iter().filter_map(|row| row.get(name)).collect() };
        let names = rows[0].figures.iter().map(|(name, _)| name.clone());
        let estimates: Vec<(String, Estimate)> =
            names.map(|name| (name.clone(), Estimate::of(&figure(&name)))).collect();
        let (n, complete) =
            (rows.iter().map(|row| row.n).sum(), rows.iter().all(|row| row.complete));
        let first = rows.into_iter().next().expect("one seed at least");
        let intervals = estimates.iter().map(|(_, estimate)| estimate.half_width).collect();
        let figures = estimates.into_iter().map(|(name, estimate)| (name, estimate.mean)).collect();
        Row { n, complete, figures, intervals, ..first }
    }

    /// Half of the confidence interval of `metric`; none after a run with one seed.
    pub fn interval(&self, metric: &str) -> Option<f64> {
        let i = self.figures.iter().position(|(name, _)| name == metric)?;
        self.intervals.get(i).copied()
    }

    /// The figure called `metric`.
    pub fn get(&self, metric: &str) -> Option<f64> {
        if metric == "count" {
            return Some(self.n as f64);
        }
        self.figures.iter().find(|(name, _)| name == metric).map(|(_, figure)| *figure)
    }

    /// The variable called `name`.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// For `--json`, in base units.
    pub fn json(&self) -> Value {
        let mut map = Map::new();
        map.insert("case".into(), self.name.clone().into());
        map.insert("count".into(), self.n.into());
        // Those of nothing are null.
        let latencies = metric::LATENCY.map(|name| (name, self.get(name)));
        let others = self.figures.iter().filter(|(name, _)| !metric::is_latency(name));
        let others = others.map(|(name, figure)| (name.as_str(), Some(*figure)));
        for (name, figure) in latencies.into_iter().chain(others) {
            let (key, value) = metric::in_base_unit(name, figure.unwrap_or(0.0), self.unit);
            map.insert(key, number(figure.and(Some(value))));
        }
        if !self.intervals.is_empty() {
            let intervals =
                self.figures.iter().zip(&self.intervals).map(|((name, _), half_width)| {
                    let (key, value) = metric::in_base_unit(name, *half_width, self.unit);
                    (key, number(Some(value)))
                });
            map.insert("intervals".into(), Value::Object(intervals.collect()));
        }
        map.insert("complete".into(), self.complete.into());
        Value::Object(map)
    }
}

/// A JSON number, whole if the value is; null if there is none.
pub(crate) fn number(value: Option<f64>) -> Value {
    match value {
        Some(x) if x.fract() == 0.0 && x.abs() < 9e15 => Value::from(x as i64),
        Some(x) => Value::from(x),
        None => Value::Null,
    }
}

/// The figures of [`metric::LATENCY`].
pub(crate) fn latency_figures(hist: &Hist, unit: TimeUnit) -> Vec<(String, f64)> {
    if hist.n() == 0 {
        return Vec::new();
    }
    let spans: [(&str, Duration); 9] = [
        ("avg", hist.mean()),
        ("min", hist.min()),
        ("p25", hist.quantile(0.25)),
        ("p50", hist.quantile(0.5)),
        ("p75", hist.quantile(0.75)),
        ("p90", hist.quantile(0.9)),
        ("p99", hist.quantile(0.99)),
        ("p99_9", hist.quantile(0.999)),
        ("max", hist.max()),
    ];
    let spans = spans.iter().map(|(name, span)| (name.to_string(), unit.of(*span)));
    let std_dev = TimeUnit::Ns.convert(hist.std_dev_ns(), unit);
    spans.chain([("std_dev".to_string(), std_dev)]).collect()
}

/// The tail of `hist`, thinned to what an eye can tell apart on logarithmic axes.
pub(crate) fn tail(hist: &Hist, unit: TimeUnit) -> Vec<(f64, f64)> {
    let n = hist.n() as f64;
    let mut points: Vec<(f64, f64)> = vec![(unit.of(hist.min()), 1.0)];
    let mut skipped = None;
    for (span, share) in hist.steps() {
        // The longest value has none above it; half a value keeps it on a log scale.
        let point = (unit.of(span), (1.0 - share).max(0.5 / n));
        let &(x, y) = points.last().expect("never empty");
        if point.0 > x * 1.004 || point.1 < y * 0.98 {
            points.extend(skipped.take().filter(|_| point.0 > x * 1.02));
            points.push(point);
        } else {
            skipped = Some(point);
        }
    }
    points.extend(skipped);
    points
}
