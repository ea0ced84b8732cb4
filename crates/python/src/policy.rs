//! Policies: what `lowtail host apply` takes.

use lowtail_control::policy::Policy;
use pyo3::prelude::*;

use crate::error;

/// Checks a policy, called `name` in errors: it raises `PolicyError` with line and column if it is none.
#[pyfunction]
#[pyo3(signature = (text, *, name = "policy.toml"))]
pub(crate) fn validate_policy(py: Python<'_>, text: &str, name: &str) -> PyResult<()> {
    match Policy::parse(name, text) {
        Ok(_) => Ok(()),
        Err(located) => Err(error::at(py, error::Kind::Policy, &located)),
    }
}

/// The JSON schema of policies, as `lowtail host schema` prints it.
#[pyfunction]
pub(crate) fn policy_schema() -> String {
    lowtail_control::policy::schema()
}
