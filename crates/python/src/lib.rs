//! The extension module of the Python package `lowtail`: what of it is written in Rust. `lowtail/__init__.py` is what people import.
//!
//! Figures are those of the command to the last bit: the same functions make them, and they reach Python as Arrow columns, or as JSON that
//! holds each number whole.
#![warn(missing_docs)]

mod error;
mod outcome;
mod piece;
mod policy;
mod predict;
mod problem;
mod recording;
mod run;
mod scenario;
mod table;
mod terms;
mod tune;
mod value;
mod wait;

use pyo3::prelude::*;

/// The extension module.
#[pymodule(name = "_lowtail")]
mod extension {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::outcome::Outcome;
    #[pymodule_export]
    use crate::piece::{join, mean, run_piece};
    #[pymodule_export]
    use crate::policy::{policy_schema, validate_policy};
    #[pymodule_export]
    use crate::predict::predict;
    #[pymodule_export]
    use crate::problem::Problem;
    #[pymodule_export]
    use crate::recording::Recording;
    #[pymodule_export]
    use crate::run::run;
    #[pymodule_export]
    use crate::scenario::{Scenario, experiments};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::tune::tune;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", lowtail_lab::VERSION)
    }
}
