//! Why a scenario has no cases that can be run.

use crate::error::{Error, SpanError};

/// What can be wrong: something in the scenario, or a file that it names.
#[derive(Debug)]
pub(crate) enum ExpandError {
    InScenario(SpanError),
    InOtherFile(Error),
}

impl From<SpanError> for ExpandError {
    fn from(fault: SpanError) -> Self {
        ExpandError::InScenario(fault)
    }
}
