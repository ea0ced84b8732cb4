//! Fidelity as JSON.

use lowtail_play::fidelity::{Causes, Goal, Judged, JudgedKind};
use serde_json::{Value, json};

use super::picture;
use crate::lab::check::within;

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
    let histogram = picture::histogram(judged, kind.tally.figure);
    let goal = |goal: Goal| {
        json!({
            "error": goal.figure.steps()[goal.step],
            "ratio": goal.percent as f64 / 100.0,
            "met": kind.met,
        })
    };
    json!({
        "figure": kind.tally.figure,
        "count": kind.tally.n,
        "within": within(&kind.tally),
        "goal": kind.goal.map(goal),
        "histogram": {
            "below": histogram.below,
            "counts": histogram.counts,
            "above": histogram.above,
        },
    })
}

fn worst(judged: &Judged, causes: &Causes) -> Vec<Value> {
    let system = judged.system.id();
    let value = judged.worst().into_iter().map(|(scenario, figure)| {
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
