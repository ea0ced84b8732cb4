//! Names of the figures of a row, and their units.

use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::nearest;

/// Figures of a row's distribution, in the unit of the row.
pub const LATENCY: [&str; 10] =
    ["avg", "min", "p25", "p50", "p75", "p90", "p99", "p99_9", "max", "std_dev"];

/// Those of them that each table of rows has; it has the rest if `show` names it.
pub const COLUMNS: &[&str] = LATENCY.split_at(9).0;

/// Figures of a case as a whole, or of its row's VM, with their units.
pub const GENERAL: [(&str, &str); 10] = [
    ("count", "count"),
    ("late", "count"),
    ("late_per_600k", "count"),
    ("switches_per_second", "1/s"),
    ("schedules_per_second", "1/s"),
    ("busy_cpus", "pCPUs"),
    // Of all pCPUs of all hosts: with a thread of a VM on them, and without.
    ("guest_percent", "%"),
    ("idle_percent", "%"),
    ("simulated_seconds", "s"),
    ("events", "count"),
];

/// Figures of one VM (or all of a kind together), written `cpus_used.NAME`.
pub const PER_VM: [(&str, &str); 19] = [
    ("cpus_used", "pCPUs"),
    // The largest in any window of 100 ms; only there if something asks for it.
    ("cpus_used_in_window", "pCPUs"),
    ("work_cpus", "pCPUs"),
    // The part of it that its workers of vhost have used; only there if it has some.
    ("backend_cpus", "pCPUs"),
    // Of the CPU time that the others leave it: what is no work of its own.
    ("lost_percent", "%"),
    ("wakeups_per_second", "1/s"),
    ("preemptions_per_second", "1/s"),
    // Payload that has arrived; only there if flows end or begin in it.
    ("mbit_per_second", "Mbit/s"),
    ("lost_per_second", "1/s"),
    // Jain's index of fairness of these: 1 if all VMs of the kind get the same.
    ("jain", "index"),
    // Of a driver domain: how long its grant locks are held, and waited for.
    ("lock_held_ratio", "share"),
    ("lock_wait_cpus", "pCPUs"),
    // What processes of its kernel have had for themselves.
    ("process_cpus", "pCPUs"),
    // Of its control groups with limits, and those above them; only there if it has any.
    ("periods", "count"),
    ("throttled_periods", "count"),
    ("throttled_percent", "%"),
    ("throttled_ms", "ms"),
    ("longest_pause_ms", "ms"),
    // Largest deviation of a vCPU's (or the whole VM's) run time from its quota.
    ("cap_error_percent", "%"),
];

/// A unit of time for figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    #[default]
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// Its sign.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Us => "us",
            TimeUnit::Ms => "ms",
            TimeUnit::S => "s",
        }
    }

    /// `span` in this unit.
    pub fn of(self, span: Duration) -> f64 {
        span.as_ps() as f64 / self.ps()
    }

    /// What a figure in this unit is in `other`.
    pub fn convert(self, figure: f64, other: TimeUnit) -> f64 {
        if self == other { figure } else { figure * self.ps() / other.ps() }
    }

    fn ps(self) -> f64 {
        match self {
            TimeUnit::Ns => 1e3,
            TimeUnit::Us => 1e6,
            TimeUnit::Ms => 1e9,
            TimeUnit::S => 1e12,
        }
    }
}

/// Whether `metric` is a span of time of the row's distribution, or the spread of these.
pub fn is_latency(metric: &str) -> bool {
    LATENCY.contains(&metric)
}

/// What `metric` becomes of `figure` if a wait is added that is uniform from nothing to `wait`, which has nothing to do with the rest: a
/// quantile gets its part of it, the mean half, and variances add up. The same if it is no span of time.
pub(crate) fn with_uniform_wait(metric: &str, figure: f64, wait: f64) -> f64 {
    let part = match metric {
        "p25" => 0.25,
        "p50" | "avg" => 0.5,
        "p75" => 0.75,
        "p90" => 0.9,
        "p99" => 0.99,
        "p99_9" => 0.999,
        "max" => 1.0,
        // The variance of a uniform distribution is a twelfth of its width's square.
        "std_dev" => return figure.hypot(wait / 12f64.sqrt()),
        _ => 0.0,
    };
    figure + part * wait
}

/// The unit of `metric` in a row whose times are in `unit`.
pub fn unit(metric: &str, unit: TimeUnit) -> &'static str {
    if is_latency(metric) {
        return unit.name();
    }
    let stem = metric.split_once('.').map_or(metric, |(stem, _)| stem);
    let known = GENERAL.iter().chain(&PER_VM).find(|(name, _)| *name == stem);
    known.map_or("", |(_, unit)| unit)
}

/// A figure as JSON has it, in the base units of OpenMetrics: seconds, ratios, bits; the unit ends its name, before that of the
/// VM. `unit` is that of the row's times.
pub fn in_base_unit(metric: &str, figure: f64, unit: TimeUnit) -> (String, f64) {
    (base_name(metric), base_value(metric, figure, unit))
}

/// The name of a figure in its base unit.
pub fn base_name(metric: &str) -> String {
    if is_latency(metric) {
        return format!("{metric}_seconds");
    }
    let (stem, vm) = match metric.split_once('.') {
        Some((stem, vm)) => (stem, format!(".{vm}")),
        None => (metric, String::new()),
    };
    match Base::of(stem) {
        Base::Ratio(stem) => format!("{stem}_ratio{vm}"),
        Base::Seconds(stem, _) => format!("{stem}_seconds{vm}"),
        Base::Bits(stem) => format!("{stem}bits_per_second{vm}"),
        Base::Same => metric.to_string(),
    }
}

/// A figure in its base unit. `unit` is that of the row's times.
pub fn base_value(metric: &str, figure: f64, unit: TimeUnit) -> f64 {
    // To the picosecond, which is what the clock counts in.
    let seconds = |unit: TimeUnit| (figure * unit.ps()).round() / 1e12;
    if is_latency(metric) {
        return seconds(unit);
    }
    match Base::of(metric.split_once('.').map_or(metric, |(stem, _)| stem)) {
        Base::Ratio(_) => figure / 100.0,
        Base::Seconds(_, unit) => seconds(unit),
        Base::Bits(_) => figure * 1e6,
        Base::Same => figure,
    }
}

/// What becomes of a figure's name, without that of its VM, in the base unit; each with what is left of it without its unit.
enum Base<'a> {
    Ratio(&'a str),
    Seconds(&'a str, TimeUnit),
    Bits(&'a str),
    Same,
}

impl<'a> Base<'a> {
    fn of(stem: &'a str) -> Self {
        if let Some(stem) = stem.strip_suffix("_percent") {
            Base::Ratio(stem)
        } else if let Some(stem) = stem.strip_suffix("_us") {
            Base::Seconds(stem, TimeUnit::Us)
        } else if let Some(stem) = stem.strip_suffix("_ms") {
            Base::Seconds(stem, TimeUnit::Ms)
        } else if let Some(stem) = stem.strip_suffix("mbit_per_second") {
            Base::Bits(stem)
        } else {
            Base::Same
        }
    }
}

/// The base unit of `metric`.
pub fn base_unit(metric: &str) -> &'static str {
    if is_latency(metric) {
        return "s";
    }
    match unit(metric, TimeUnit::S) {
        "%" => "ratio",
        "ms" => "s",
        "Mbit/s" => "bit/s",
        "share" => "ratio",
        unit => unit,
    }
}

/// Refuses a metric that no row has, given the names of the VMs.
pub(crate) fn check(metric: &str, vms: &[String]) -> Result<(), String> {
    let general = LATENCY.iter().copied().chain(GENERAL.iter().map(|(name, _)| *name));
    let mut known: Vec<String> = general.map(str::to_string).collect();
    for (stem, _) in PER_VM {
        known.extend(vms.iter().map(|vm| format!("{stem}.{vm}")));
    }
    if known.iter().any(|name| name == metric) {
        return Ok(());
    }
    let near = nearest(metric, known.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    Err(format!("unknown metric `{metric}`; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3, 4 and 5: a wait of 4 x sqrt(12) has a standard deviation of 4. What is no span stays as it is.
    #[test]
    fn variances_add_up_and_quantiles_shift() {
        let std_dev = with_uniform_wait("std_dev", 3.0, 4.0 * 12f64.sqrt());
        assert!((std_dev - 5.0).abs() < 1e-12, "{std_dev}");
        assert_eq!(with_uniform_wait("p90", 3.0, 10.0), 12.0);
        assert_eq!(with_uniform_wait("min", 3.0, 10.0), 3.0);
        assert_eq!(with_uniform_wait("busy_cpus", 3.0, 10.0), 3.0);
    }

    /// Tables do without the spread only.
    #[test]
    fn columns_are_all_but_the_spread() {
        assert_eq!(LATENCY.len() - COLUMNS.len(), 1);
        assert!(!COLUMNS.contains(&"std_dev") && is_latency("std_dev"));
        assert_eq!(in_base_unit("std_dev", 155.568, TimeUnit::Us).0, "std_dev_seconds");
    }
}
