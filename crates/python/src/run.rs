//! Runs.

use std::num::NonZeroU16;
use std::sync::Arc;

use lowtail_lab::{Progress, RunOptions, run_until};
use pyo3::prelude::*;

use crate::error;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::wait::wait;

/// As many threads as there are CPUs.
pub(crate) fn threads(jobs: Option<NonZeroU16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    jobs.map_or_else(all, |jobs| jobs.get().into())
}

/// Runs a scenario, `jobs` pieces at the same time. Figures follow from the scenario and the seed alone.
#[pyfunction]
#[pyo3(signature = (
    scenario, *, seed = None, seeds = None, jobs = None, full = false, cases = Vec::new(), record = 0, completions = false,
    blame = false, progress = None
))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    seed: Option<u64>,
    seeds: Option<u16>,
    jobs: Option<NonZeroU16>,
    full: bool,
    cases: Vec<String>,
    record: usize,
    completions: bool,
    blame: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let experiment = Arc::clone(&scenario.get().experiment);
    let (seeds, jobs) = (seeds.map(|n| n.max(1)), threads(jobs));
    let options = RunOptions {
        seed,
        seeds,
        jobs,
        full,
        record,
        cases,
        completions,
        blame,
        ..RunOptions::default()
    };
    let done = wait(py, progress, move |line| {
        let tell = |progress: Progress| line.progress(progress.done as u64, progress.total as u64);
        run_until(&experiment, &options, &tell, &|| line.is_over())
    })?;
    let done = done.map_err(|error| error::lab(py, &error))?;
    // Only who does not wait has nothing.
    Ok(Outcome::new(done.expect("it was waited for")))
}
