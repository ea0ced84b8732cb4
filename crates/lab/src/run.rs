//! Runs: each case by each seed, and what all of them say together.

use crate::error::Error;
use crate::experiment::Experiment;
use crate::options::RunOptions;
use crate::outcome::Outcome;
use crate::piece;
use crate::pool::{self, Progress};

/// Runs all cases of an experiment and judges its claims. `progress` is called on the
/// calling thread, once before the first case and after each.
///
/// # Errors
/// If there is no case or link of a name that `options` has, or a check inside the simulator
/// failed.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    progress: &dyn Fn(Progress),
) -> Result<Outcome, Error> {
    let outcome = run_until(experiment, options, progress, &|| false)?;
    Ok(outcome.expect("nobody has ended it"))
}

/// The same for who may lose interest: a case that has not begun when `is_over` does not run any more, and there is no outcome.
///
/// # Errors
/// As [`run()`].
pub fn run_until(
    experiment: &Experiment,
    options: &RunOptions,
    progress: &dyn Fn(Progress),
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Outcome>, Error> {
    let cases = experiment.chosen(options)?;
    let (seed, seeds) = piece::seeds(experiment, options);
    let nth = |i: usize| seed.wrapping_add((i % seeds) as u64);
    let one = |i: usize| {
        let wanted = !is_over();
        wanted.then(|| piece::simulate(experiment, options, cases[i / seeds], nth(i)))
    };
    let results = pool::run(cases.len() * seeds, options.jobs, progress, one);
    let results = results.map_err(|(i, message)| {
        piece::failed(experiment, &cases[i / seeds].name, nth(i), message)
    })?;
    let results = results.into_iter().collect::<Option<Vec<_>>>();
    Ok(results.map(|results| piece::joined(experiment, options, results)))
}
