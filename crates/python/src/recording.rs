//! Recorded schedules.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use lowtail_arrow::trace;
use lowtail_predict::Recording as Schedule;
use lowtail_trace::{Latency, Layout, Options, Races};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::{self, Kind};
use crate::table::Table;

/// A schedule recorded on a real host: a file of `lowtail host record`, `perf sched record` or xentrace.
///
/// The file is read when something is asked of it, and no two questions read it for the same thing.
#[pyclass(module = "lowtail", frozen)]
pub(crate) struct Recording {
    path: PathBuf,
    options: Options,
    latency: PyOnceLock<Arc<Latency>>,
}

/// Why a file cannot be read.
enum Failed {
    /// It cannot be opened.
    Open(std::io::Error),
    /// What is in it.
    Trace(lowtail_trace::Error),
}

impl Recording {
    /// The file's name, for errors.
    pub(crate) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn failed(&self, py: Python<'_>, failed: Failed) -> PyErr {
        match failed {
            Failed::Open(error) => error::os(&self.shown(), &error),
            Failed::Trace(error) => {
                error::wrong(py, Kind::Recording, format!("{}: {error}", self.shown()))
            }
        }
    }

    fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(File, &Options) -> Result<T, lowtail_trace::Error> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let file = File::open(&self.path).map_err(Failed::Open)?;
            work(file, &self.options).map_err(Failed::Trace)
        });
        done.map_err(|error| self.failed(py, error))
    }

    /// All of it, for predictions.
    pub(crate) fn schedule(&self, py: Python<'_>) -> PyResult<Schedule> {
        let read = |file, options: &Options| match Schedule::read(file, options) {
            Err(lowtail_predict::Error::Trace(error)) => Err(error),
            other => Ok(other),
        };
        self.read(py, read)?.map_err(|error| error::predict(py, &self.shown(), &error))
    }

    fn found(&self, py: Python<'_>) -> PyResult<&Arc<Latency>> {
        self.latency.get_or_try_init(py, || Ok(Arc::new(self.read(py, lowtail_trace::latency)?)))
    }

    fn of_latency(
        &self,
        py: Python<'_>,
        of: fn(&Latency) -> lowtail_arrow::RecordBatch,
    ) -> PyResult<Table> {
        let latency = Arc::clone(self.found(py)?);
        Ok(Table::new(py.detach(|| of(&latency))))
    }
}

#[pymethods]
impl Recording {
    /// The recording in the file at `path`. `cpu_hz`: ticks per second of xentrace's counter, which is measured if it is not said.
    /// `by_run_state`: a wake-up that came while its vCPU was being switched out counts as a preemption.
    #[new]
    #[pyo3(signature = (path, *, cpu_hz = None, by_run_state = false))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        cpu_hz: Option<u64>,
        by_run_state: bool,
    ) -> PyResult<Self> {
        let races = if by_run_state { Races::Preemptions } else { Races::Wakes };
        let recording = |perf_layout| Recording {
            options: Options { cpu_hz, races, perf_layout },
            path: path.clone(),
            latency: PyOnceLock::new(),
        };
        let ahead = File::open(&path)
            .map_err(Failed::Open)
            .and_then(|_| Layout::look_ahead(&path).map_err(Failed::Trace));
        match ahead {
            Ok(layout) => Ok(recording(layout)),
            Err(error) => Err(recording(None).failed(py, error)),
        }
    }

    /// The file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Of each vCPU how long it waited and ran, in seconds.
    fn latency(&self, py: Python<'_>) -> PyResult<Table> {
        self.of_latency(py, trace::latency)
    }

    /// Who ran while each vCPU waited, for how long, and why.
    fn blame(&self, py: Python<'_>) -> PyResult<Table> {
        self.of_latency(py, trace::blame)
    }

    /// How busy each pCPU was.
    fn pcpus(&self, py: Python<'_>) -> PyResult<Table> {
        self.of_latency(py, trace::pcpus)
    }

    /// With whom each vCPU shared its core.
    fn smt_siblings(&self, py: Python<'_>) -> PyResult<Table> {
        self.of_latency(py, trace::smt_siblings)
    }

    /// All events, in order.
    fn events(&self, py: Python<'_>) -> PyResult<Table> {
        let batches = self.read(py, |file, options| {
            let mut batches = Vec::new();
            trace::events(file, options, |batch| {
                batches.push(batch);
                Ok(())
            })?;
            Ok(batches)
        })?;
        Ok(Table::of(trace::events_schema(), batches))
    }

    /// What `lowtail trace latency --json` prints, as a dict.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let latency = Arc::clone(self.found(py)?);
        loaded(py, &*latency)
    }

    /// What `lowtail trace info --json` prints, as a dict: span, pCPUs, domains, records by class, losses.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let info = self.read(py, lowtail_trace::info)?;
        loaded(py, &info)
    }

    fn __repr__(&self) -> String {
        format!("<lowtail.Recording {}>", self.shown())
    }
}

/// As JSON.
pub(crate) fn json(py: Python<'_>, value: &(impl serde::Serialize + Sync)) -> PyResult<String> {
    let text = py.detach(|| serde_json::to_string(value));
    text.map_err(|why| error::wrong(py, Kind::Simulator, why))
}

/// As a `dict`. Numbers are written in as many digits as tell them apart, so that none changes.
fn loaded<'py>(
    py: Python<'py>,
    value: &(impl serde::Serialize + Sync),
) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.getattr("loads")?.call1((json(py, value)?,))
}
