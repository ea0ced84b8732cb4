//! Runs of a random scenario, and what a measure says of them.

use std::ops::Range;

use super::finding::Finding;
use super::measure::Measure;
use crate::experiment::Experiment;
use crate::row::Row;
use crate::run_case::{KeepOptions, run_case};

/// The rows of these cases of `scenario`.
///
/// # Panics
/// If the scenario is wrong, which would be a bug of who wrote it.
pub(super) fn rows(scenario: &str, cases: Range<usize>) -> Vec<Row> {
    let experiment = Experiment::parse("attack.toml", scenario, None);
    let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{scenario}"));
    let file = &experiment.file;
    let keep = KeepOptions { windows: true, ..KeepOptions::default() };
    let results = experiment.cases(false)[cases]
        .iter()
        .map(|case| run_case(case, file.seed, file.unit, &keep));
    results.flat_map(|result| result.rows).collect()
}

/// Compares a scenario under attack with the same one with honest VMs.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub(super) run: u32,
    pub(super) target: &'static str,
    pub(super) scenario: &'a str,
    pub(super) attack: &'a Row,
    pub(super) honest: &'a Row,
}

impl Judge<'_> {
    /// What `measure` says of `metric`, a figure of `vm`; it should have been `reference`, or what it is with honest
    /// VMs. `None` if there is no such figure.
    pub(super) fn find(
        &self,
        measure: Measure,
        (vm, workload): (&str, String),
        metric: &str,
        reference: Option<f64>,
    ) -> Option<Finding> {
        // A victim that has answered nothing has let all wait for the whole run.
        let starved = || {
            let seconds = self.attack.get("simulated_seconds");
            seconds.filter(|_| measure.is_tail() && self.attack.n == 0).map(|s| s * 1e6)
        };
        let figure = self.attack.get(metric).or_else(starved)?;
        let honest = self.honest.get(metric)?;
        let reference = reference.unwrap_or(honest);
        (reference > 0.0).then(|| Finding {
            measure,
            run: self.run,
            target: self.target,
            vm: vm.to_string(),
            workload,
            figure,
            reference,
            honest,
            scenario: self.scenario.to_string(),
        })
    }
}
