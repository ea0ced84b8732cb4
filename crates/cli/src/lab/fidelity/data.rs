//! Fidelity as JSON.

use lowtail_play::fidelity::{Causes, Judged, JudgedKind};
use serde_json::{Value, json};

use super::super::check::summary;
use super::{WORST, picture};

/// Of all systems.
pub(super) fn json(all: &[Judged], causes: &Causes) -> Value {
    let system = |judged: &Judged| {
        let report = &judged.report;
        json!({
            "system": judged.system.id(),
            "kernel": report.kernel,
            "version": report.version,
            "command": report.command(),
            "elapsed_seconds": report.elapsed_seconds,
            "summary": judged.kinds.iter().map(|kind| self::kind(judged, kind)).collect::<Vec<_>>(),
            "worst": worst(judged, causes),
        })
    };
    Value::Array(all.iter().map(system).collect())
}

/// A kind of figure: its tally, its goal, and the histogram of its errors.
fn kind(judged: &Judged, kind: &JudgedKind) -> Value {
    let mut value = summary(&kind.tally);
    let histogram = picture::histogram(judged, kind.tally.figure);
    value["goal"] = kind.goal.map_or(Value::Null, |goal| {
        json!({
            "error": goal.figure.steps()[goal.step],
            "ratio": goal.percent as f64 / 100.0,
            "met": kind.met,
        })
    });
    value["histogram"] = json!({
        "below": histogram.below,
        "counts": histogram.counts,
        "above": histogram.above,
    });
    value
}

fn worst(judged: &Judged, causes: &Causes) -> Vec<Value> {
    let system = judged.system.id();
    let worst = judged.report.worst().into_iter().take(WORST);
    let value = worst.map(|(scenario, figure)| {
        json!({
            "scenario": scenario,
            "vm": figure.of,
            "figure": figure.figure,
            "simulated": figure.simulated,
            "kernel": figure.kernel,
            "error": figure.error(),
            "cause": causes.of(&system, scenario, &figure.of, figure.figure),
            "command": judged.report.settings.only(scenario),
        })
    });
    value.collect()
}
