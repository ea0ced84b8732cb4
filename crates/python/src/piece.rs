//! Pieces of runs, for those who run them elsewhere: one case by one seed, as plain tuples that any worker can send.

use lowtail_lab::metric::TimeUnit;
use lowtail_lab::{Piece, Row, RunOptions, join as join_pieces};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::wait::wait;

/// A row: name, values counted, figures in the scenario's unit, half of their confidence intervals, the distribution, and whether it is complete.
type PlainRow = (String, u64, Vec<(String, f64)>, Vec<f64>, Vec<(f64, f64)>, bool);

fn plain(row: Row) -> PlainRow {
    (row.name, row.n, row.figures, row.intervals, row.tail, row.complete)
}

/// The rows that `run_piece` gave, as rows of that case.
fn rows(scenario: &Scenario, case: &str, full: bool, plain: Vec<PlainRow>) -> PyResult<Vec<Row>> {
    let cases = scenario.experiment.cases(full);
    let case = cases.iter().find(|known| known.name == case);
    let case = case.ok_or_else(|| PyValueError::new_err("no such case"))?;
    let unit: TimeUnit = scenario.experiment.file.unit;
    let row = |(name, n, figures, intervals, tail, complete): PlainRow| Row {
        name,
        n,
        unit,
        figures,
        intervals,
        tail,
        variables: case.variables.clone(),
        complete,
    };
    Ok(plain.into_iter().map(row).collect())
}

/// Runs one case by one seed, and gives its rows. For `sweep`.
#[pyfunction]
#[pyo3(signature = (scenario, case, seed, *, full = false))]
pub(crate) fn run_piece(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    case: String,
    seed: u64,
    full: bool,
) -> PyResult<Vec<PlainRow>> {
    let experiment = std::sync::Arc::clone(&scenario.get().experiment);
    let options = RunOptions { full, ..RunOptions::default() };
    let piece = wait(py, None, move |_| Piece::run(&experiment, &options, &case, seed))?;
    let piece = piece.map_err(|error| error::lab(py, &error))?;
    Ok(piece.rows.into_iter().map(plain).collect())
}

/// Means over the seeds of one case, with their intervals, of what `run_piece` gave, in the order of the seeds. For `sweep`.
#[pyfunction]
#[pyo3(signature = (scenario, case, pieces, *, full = false))]
pub(crate) fn mean(
    scenario: &Bound<'_, Scenario>,
    case: &str,
    pieces: Vec<(u64, Vec<PlainRow>)>,
    full: bool,
) -> PyResult<Vec<PlainRow>> {
    let scenario = scenario.get();
    let piece = |(seed, of): (u64, Vec<PlainRow>)| -> PyResult<Piece> {
        Ok(Piece::new(case.to_owned(), seed, rows(scenario, case, full, of)?))
    };
    let pieces = pieces.into_iter().map(piece).collect::<PyResult<Vec<_>>>()?;
    Ok(Piece::mean(pieces).into_iter().map(plain).collect())
}

/// The outcome of a run of which these are all pieces: (case, seed, rows), in any order. For `sweep`.
#[pyfunction]
#[pyo3(signature = (scenario, pieces, *, seed = None, seeds = None, full = false, cases = Vec::new()))]
pub(crate) fn join(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    pieces: Vec<(String, u64, Vec<PlainRow>)>,
    seed: Option<u64>,
    seeds: Option<u16>,
    full: bool,
    cases: Vec<String>,
) -> PyResult<Outcome> {
    let scenario = scenario.get();
    let piece = |(case, seed, of): (String, u64, Vec<PlainRow>)| -> PyResult<Piece> {
        let rows = rows(scenario, &case, full, of)?;
        Ok(Piece::new(case, seed, rows))
    };
    let pieces = pieces.into_iter().map(piece).collect::<PyResult<Vec<_>>>()?;
    let options = RunOptions { seed, seeds, full, cases, ..RunOptions::default() };
    let outcome = join_pieces(&scenario.experiment, &options, pieces);
    Ok(Outcome::new(outcome.map_err(|error| error::lab(py, &error))?))
}
