//! Errors as exceptions of the package: `lowtail/errors.py` has their classes.

use std::fmt::Display;
use std::io;

use lowtail_config_text::LocatedError;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

/// Which class of `lowtail/errors.py`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A scenario, or what is asked of one.
    Scenario,
    /// A recording, or what is asked of one.
    Recording,
    /// A policy.
    Policy,
    /// An argument.
    Argument,
    /// A bug of ours.
    Simulator,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Scenario => "ScenarioError",
            Kind::Recording => "RecordingError",
            Kind::Policy => "PolicyError",
            Kind::Argument => "ArgumentError",
            Kind::Simulator => "SimulatorError",
        }
    }
}

/// A place in a file: its name, the line and the column from 1.
type Place<'a> = (Option<&'a str>, Option<usize>, Option<usize>);

fn raise(py: Python<'_>, kind: Kind, message: &str, place: Place<'_>) -> PyErr {
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let class = py.import("lowtail.errors")?.getattr(kind.class())?;
        let (file, line, column) = place;
        class.call1((message, file, line, column))
    };
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        // Without the package there are no classes.
        Err(_) => PyRuntimeError::new_err(message.to_owned()),
    }
}

/// An exception of `kind` that says this.
pub(crate) fn wrong(py: Python<'_>, kind: Kind, message: impl Display) -> PyErr {
    raise(py, kind, &message.to_string(), (None, None, None))
}

/// The same with the place.
pub(crate) fn at(py: Python<'_>, kind: Kind, error: &LocatedError) -> PyErr {
    let place = (Some(error.file.as_str()), Some(error.line), Some(error.column));
    raise(py, kind, &error.to_string(), place)
}

/// An error of the host's about a file: `FileNotFoundError`, `PermissionError` and so on, as Python raises them.
pub(crate) fn os(file: &str, error: &io::Error) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), error.to_string(), file.to_owned()))
}

/// An error of the simulator's crate.
pub(crate) fn lab(py: Python<'_>, error: &lowtail_lab::Error) -> PyErr {
    use lowtail_lab::Error;
    match error {
        Error::At(located) => at(py, Kind::Scenario, located),
        Error::File(file) if file.is_hosts => PyOSError::new_err(error.to_string()),
        Error::Simulator { .. } => wrong(py, Kind::Simulator, error),
        _ => wrong(py, Kind::Scenario, error),
    }
}

/// An error of a prediction.
pub(crate) fn predict(py: Python<'_>, file: &str, error: &lowtail_predict::Error) -> PyErr {
    use lowtail_predict::Error;
    match error {
        Error::NoVm { .. }
        | Error::NoThread { .. }
        | Error::SameName { .. }
        | Error::NotXen { .. }
        | Error::Unsaid { .. }
        | Error::FewWakeups { .. } => wrong(py, Kind::Argument, error),
        _ => raise(py, Kind::Recording, &format!("{file}: {error}"), (Some(file), None, None)),
    }
}

/// An error of a search.
pub(crate) fn tune(py: Python<'_>, file: &str, error: &lowtail_tune::Error) -> PyErr {
    use lowtail_tune::Error;
    match error {
        Error::Predict(error) => predict(py, file, error),
        Error::Lab(error) => lab(py, error),
        Error::NoSuch { .. } | Error::TooFew { .. } | Error::Senseless(_) => {
            wrong(py, Kind::Argument, error)
        }
        Error::Scenario(message) => wrong(py, Kind::Scenario, message),
    }
}

/// An error of a policy.
pub(crate) fn policy(py: Python<'_>, error: &lowtail_control::policy::Error) -> PyErr {
    use lowtail_control::policy::Error;
    match error {
        Error::At(located) => at(py, Kind::Policy, located),
        Error::File(file) if file.is_hosts => PyOSError::new_err(error.to_string()),
        Error::File(_) => wrong(py, Kind::Policy, error),
    }
}
