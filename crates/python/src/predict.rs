//! Predictions.

use lowtail_predict::{Interrupts, predict as predict_change};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::recording::{Recording, json};
use crate::terms::{terms, wanted};
use crate::wait::wait;

/// What a change would do to the VMs of a recording, as the JSON of `lowtail predict --json`.
#[pyfunction]
#[pyo3(signature = (recording, said, asked, *, seeds = 5, timers = Vec::new(), arrivals = Vec::new(), anyway = false))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn predict(
    py: Python<'_>,
    recording: &Bound<'_, Recording>,
    said: &Bound<'_, PyDict>,
    asked: &Bound<'_, PyDict>,
    seeds: u64,
    timers: Vec<String>,
    arrivals: Vec<String>,
    anyway: bool,
) -> PyResult<String> {
    let file = recording.get().shown();
    let failed = |error: lowtail_predict::Error| error::predict(py, &file, &error);
    let (terms, wanted) = (terms(said)?, wanted(asked)?);
    let mut schedule = recording.get().schedule(py)?;
    let as_it_was = terms.setup(&mut schedule).map_err(failed)?;
    let timers = timers.into_iter().map(|name| (name, Interrupts::Timer));
    let arrivals = arrivals.into_iter().map(|name| (name, Interrupts::Arrivals));
    let interrupts: Vec<_> = timers.chain(arrivals).collect();
    schedule.set_interrupts(&interrupts).map_err(failed)?;
    let prediction = wait(py, None, move |_| {
        let change = wanted.change(&schedule, &as_it_was)?;
        predict_change(&schedule, &as_it_was, &change, seeds, anyway)
    })?;
    json(py, &prediction.map_err(failed)?)
}
