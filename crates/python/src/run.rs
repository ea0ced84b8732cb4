//! Runs.

use std::num::NonZeroU16;
use std::sync::Arc;

use lowtail_lab::{Error, Outcome as LabOutcome, Piece, Progress, RunOptions, join, run_pieces};
use pyo3::prelude::*;

use crate::error;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::wait::{Line, wait};

/// As many threads as there are CPUs.
pub(crate) fn threads(jobs: Option<NonZeroU16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    jobs.map_or_else(all, |jobs| jobs.get().into())
}

/// All pieces, and what they are together; `None` if nobody waits for it any more.
fn pieces(
    scenario: &lowtail_lab::Experiment,
    options: &RunOptions,
    line: &Line<Result<Option<LabOutcome>, Error>>,
) -> Result<Option<LabOutcome>, Error> {
    let cases: Vec<String> =
        scenario.chosen(options)?.iter().map(|case| case.name.clone()).collect();
    let seed = options.seed.unwrap_or(scenario.file.seed);
    let seeds = usize::from(options.seeds.unwrap_or(scenario.file.seeds));
    let nth = |i: usize| seed.wrapping_add((i % seeds) as u64);
    let progress = |progress: Progress| line.progress(progress.done as u64, progress.total as u64);
    let one = |i: usize| {
        let wanted = !line.is_over();
        wanted.then(|| Piece::run(scenario, options, &cases[i / seeds], nth(i)))
    };
    let done = run_pieces(cases.len() * seeds, options.jobs, &progress, one);
    let done = done.map_err(|(i, message)| Error::Simulator {
        experiment: scenario.name.clone(),
        case: cases[i / seeds].clone(),
        seed: nth(i),
        message,
    })?;
    let Some(done) = done.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    join(scenario, options, done.into_iter().collect::<Result<_, _>>()?).map(Some)
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
    let done = wait(py, progress, move |line| pieces(&experiment, &options, line))?;
    let done = done.map_err(|error| error::lab(py, &error))?;
    // Only who does not wait has nothing.
    Ok(Outcome::new(done.expect("it was waited for")))
}
