//! Why a scenario has no cases that can be run.

use crate::error::{Error, Fault};

/// What can be wrong: something in the scenario, or a file that it names.
#[derive(Debug)]
pub(crate) enum ExpandError {
    InScenario(Fault),
    InOtherFile(Error),
}

impl From<Fault> for ExpandError {
    fn from(fault: Fault) -> Self {
        ExpandError::InScenario(fault)
    }
}
