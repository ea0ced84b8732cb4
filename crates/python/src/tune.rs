//! Searches for a policy.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use lowtail_tune::{Options, Progress, Tuned, tune as search};
use pyo3::prelude::*;

use crate::error;
use crate::problem::{Kept, Problem};
use crate::recording::json;
use crate::run::threads;
use crate::wait::wait;

/// Searches a problem, and gives the JSON of `lowtail tune --json`. `max_time`: seconds after which the search ends, if it is not done sooner.
#[pyfunction]
#[pyo3(signature = (problem, *, seed = 1, seeds = 5, budget = None, jobs = None, max_time = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn tune(
    py: Python<'_>,
    problem: &Bound<'_, Problem>,
    seed: u64,
    seeds: u64,
    budget: Option<u64>,
    jobs: Option<NonZeroU16>,
    max_time: Option<f64>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let problem = problem.get();
    let max_time = max_time.map(Duration::try_from_secs_f64).transpose();
    let max_time = max_time.map_err(|why| crate::terms::wrong(py, "max_time", why))?;
    let options = Options { seed, seeds, budget, threads: threads(jobs), max_time };
    let kept = Arc::clone(&problem.kept);
    let tuned = wait(py, progress, move |line| {
        let tuned =
            search(kept.problem(), &options, &|p: Progress| line.progress(p.done, p.total))?;
        Ok(match &*kept {
            Kept::Recorded(problem) => Tuned { grade: Some(problem.grade), ..tuned },
            Kept::Scenario(_) => tuned,
        })
    })?;
    json(py, &tuned.map_err(|e: lowtail_tune::Error| error::tune(py, &problem.name, &e))?)
}
