//! What came of a run.

use std::sync::Arc;

use lowtail_arrow::lab;
use pyo3::prelude::*;

use crate::table::Table;

/// What came of a run: rows, claims and distributions as tables.
#[pyclass(module = "lowtail", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct Outcome {
    outcome: Arc<lowtail_lab::Outcome>,
}

impl Outcome {
    pub(crate) fn new(outcome: lowtail_lab::Outcome) -> Self {
        Outcome { outcome: Arc::new(outcome) }
    }

    fn table(
        &self,
        py: Python<'_>,
        of: fn(&[lowtail_lab::Outcome]) -> lowtail_arrow::RecordBatch,
    ) -> Table {
        let outcome = std::slice::from_ref(&*self.outcome);
        Table::new(py.detach(|| of(outcome)))
    }
}

#[pymethods]
impl Outcome {
    /// The experiment's name.
    #[getter]
    fn name(&self) -> &str {
        &self.outcome.name
    }

    /// Its title.
    #[getter]
    fn title(&self) -> &str {
        &self.outcome.title
    }

    /// The seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.outcome.seed
    }

    /// By how many seeds each case was run, from that one on.
    #[getter]
    fn seeds(&self) -> u16 {
        self.outcome.seeds
    }

    /// The command that repeats it.
    #[getter]
    fn command(&self) -> &str {
        &self.outcome.command
    }

    /// Whether every claim holds, but those that are known to be missed.
    #[getter]
    fn holds(&self) -> bool {
        self.outcome.holds()
    }

    /// One row for each distribution of each case: latencies in seconds, and all other figures in base units.
    #[getter]
    fn rows(&self, py: Python<'_>) -> Table {
        self.table(py, lab::rows)
    }

    /// The claims with their verdicts, and published figures that are not judged.
    #[getter]
    fn claims(&self, py: Python<'_>) -> Table {
        self.table(py, lab::claims)
    }

    /// Of each row which share of its values is longer than what.
    #[getter]
    fn distributions(&self, py: Python<'_>) -> Table {
        self.table(py, lab::distributions)
    }

    /// The end of each case's schedule, if it was recorded (`run(record=N)`).
    #[getter]
    fn schedules(&self, py: Python<'_>) -> Table {
        self.table(py, lab::schedules)
    }

    /// How much waited at the ports of networks, if that was asked for.
    #[getter]
    fn queues(&self, py: Python<'_>) -> Table {
        self.table(py, lab::queues)
    }

    /// When each transfer of a list was complete, if that was asked for (`run(completions=True)`).
    #[getter]
    fn completions(&self, py: Python<'_>) -> Table {
        self.table(py, lab::completions)
    }

    /// What `lowtail lab run --json` prints of it.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.outcome.json().to_string())
    }

    /// The report of `lowtail lab run` as HTML, one page without other files.
    fn to_html(&self, py: Python<'_>) -> String {
        let outcome = std::slice::from_ref(&*self.outcome);
        py.detach(|| lowtail_lab::report::html(outcome))
    }

    fn __repr__(&self) -> String {
        let (name, rows) = (&self.outcome.name, self.outcome.rows.len());
        let score = self.outcome.score().line();
        format!("<lowtail.Outcome of {name}: {rows} rows, {score}>")
    }
}
