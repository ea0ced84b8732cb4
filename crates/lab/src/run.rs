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
    let cases = experiment.chosen(options)?;
    let (seed, seeds) = piece::seeds(experiment, options);
    let nth = |i: usize| seed.wrapping_add((i % seeds) as u64);
    let one = |i: usize| piece::simulate(experiment, options, cases[i / seeds], nth(i));
    let results = pool::run(cases.len() * seeds, options.jobs, progress, one);
    let results = results.map_err(|(i, message)| {
        piece::failed(experiment, &cases[i / seeds].name, nth(i), message)
    })?;
    Ok(piece::joined(experiment, options, results))
}
