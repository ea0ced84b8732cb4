//! Pieces of a run, each one case by one seed: all of them together are the run, wherever they ran.

use crate::case::spec::Case;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::options::RunOptions;
use crate::outcome::{CaseOutcome, CaseResult, Outcome};
use crate::pool;
use crate::row::Row;
use crate::run_case::{KeepOptions, run_case};

/// One case by one seed.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The case.
    pub case: String,
    /// The seed.
    pub seed: u64,
    /// Its rows.
    pub rows: Vec<Row>,
    /// The rest, if it is known here.
    outcome: Option<CaseOutcome>,
}

impl Piece {
    /// One that ran elsewhere, of which rows are known and nothing else.
    pub fn new(case: String, seed: u64, rows: Vec<Row>) -> Self {
        Piece { case, seed, rows, outcome: None }
    }

    /// Runs it, as [`run()`](crate::run()) does with these options.
    ///
    /// # Errors
    /// If there is no such case, or a check inside the simulator failed.
    pub fn run(
        experiment: &Experiment,
        options: &RunOptions,
        case: &str,
        seed: u64,
    ) -> Result<Self, Error> {
        let options = RunOptions { cases: vec![case.to_owned()], ..options.clone() };
        let chosen = experiment.chosen(&options)?;
        let one = |_| simulate(experiment, &options, chosen[0], seed);
        let results = pool::run(1, 1, &|_| (), one)
            .map_err(|(_, message)| failed(experiment, case, seed, message))?;
        let result = results.into_iter().next().expect("one piece");
        let (case, outcome) = (case.to_owned(), Some(result.case));
        Ok(Piece { case, seed, rows: result.rows, outcome })
    }

    /// The rows of one case by several seeds: means with their intervals, as [`run()`](crate::run()) has them of these seeds in this
    /// order.
    pub fn mean(pieces: Vec<Piece>) -> Vec<Row> {
        let n = pieces.len();
        let results = pieces.into_iter().map(Piece::result).collect();
        means(results, n).into_iter().flat_map(|result| result.rows).collect()
    }

    fn result(self) -> CaseResult {
        let Piece { case, rows, outcome, .. } = self;
        CaseResult { rows, case: outcome.unwrap_or_else(|| outline(case)) }
    }
}

/// The outcome of the run of which these are all pieces, in any order. Of pieces that ran elsewhere it has figures and claims alone.
///
/// # Errors
/// If there is no case of a name that `options` has, or a piece is missing.
pub fn join(
    experiment: &Experiment,
    options: &RunOptions,
    pieces: Vec<Piece>,
) -> Result<Outcome, Error> {
    let cases = experiment.chosen(options)?;
    let (seed, seeds) = seeds(experiment, options);
    let mut pieces: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    let mut results = Vec::with_capacity(pieces.len());
    for case in &cases {
        for nth in 0..seeds {
            let seed = seed.wrapping_add(nth as u64);
            let is = |piece: &&mut Option<Piece>| {
                piece.as_ref().is_some_and(|piece| piece.case == case.name && piece.seed == seed)
            };
            let found = pieces.iter_mut().find(is).and_then(Option::take);
            let found = found.ok_or_else(|| Error::NoPiece {
                experiment: experiment.name.clone(),
                case: case.name.clone(),
                seed,
            })?;
            results.push(found.result());
        }
    }
    Ok(joined(experiment, options, results))
}

/// The first seed of a run, and how many there are.
pub(crate) fn seeds(experiment: &Experiment, options: &RunOptions) -> (u64, usize) {
    let seed = options.seed.unwrap_or(experiment.file.seed);
    (seed, usize::from(options.seeds.unwrap_or(experiment.file.seeds)))
}

pub(crate) fn simulate(
    experiment: &Experiment,
    options: &RunOptions,
    case: &Case,
    seed: u64,
) -> CaseResult {
    let keep = KeepOptions {
        record: options.record,
        windows: experiment.file.uses("cpus_used_in_window"),
        watch: Some(&options.watch),
        completions: options.completions,
        blame: options.blame,
        experiment: &experiment.name,
    };
    run_case(case, seed, experiment.file.unit, &keep)
}

pub(crate) fn failed(experiment: &Experiment, case: &str, seed: u64, message: String) -> Error {
    let (experiment, case) = (experiment.name.clone(), case.to_owned());
    Error::Simulator { experiment, case, seed, message }
}

/// The outcome of all cases by all seeds, case by case.
pub(crate) fn joined(
    experiment: &Experiment,
    options: &RunOptions,
    results: Vec<CaseResult>,
) -> Outcome {
    let (seed, seeds) = seeds(experiment, options);
    let rows_of = |nth: usize| {
        results.iter().skip(nth).step_by(seeds).flat_map(|result| result.rows.clone()).collect()
    };
    let each: Vec<Vec<Row>> =
        if seeds > 1 { (0..seeds).map(rows_of).collect() } else { Vec::new() };
    Outcome::new(experiment, options, seed, means(results, seeds), &each)
}

/// One result for each case, of which `results` has one for each seed.
fn means(results: Vec<CaseResult>, seeds: usize) -> Vec<CaseResult> {
    if seeds == 1 {
        return results;
    }
    let mut results = results.into_iter();
    let mut cases = Vec::new();
    while let Some(first) = results.next() {
        let CaseResult { rows, case } = first;
        let mut of_rows: Vec<Vec<Row>> = rows.into_iter().map(|row| vec![row]).collect();
        for other in results.by_ref().take(seeds - 1) {
            for (of_row, row) in of_rows.iter_mut().zip(other.rows) {
                of_row.push(row);
            }
        }
        cases.push(CaseResult { rows: of_rows.into_iter().map(Row::mean).collect(), case });
    }
    cases
}

/// What is known of a case of which only rows are.
fn outline(name: String) -> CaseOutcome {
    CaseOutcome {
        name,
        scheduler: String::new(),
        vms: Vec::new(),
        pcpus: 0,
        vcpus: Vec::new(),
        watched: None,
        worst: None,
        network: None,
        recording: None,
        captured: None,
        completions: Vec::new(),
        queues: Vec::new(),
        queue_blame: Vec::new(),
    }
}
