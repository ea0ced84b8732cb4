//! Arguments of Python as what a prediction takes.

use std::path::PathBuf;

use lowtail_control::manage::parse_cpus;
use lowtail_control::policy::Policy;
use lowtail_engine::Duration;
use lowtail_host::{CpuSet, Pcpu};
use lowtail_predict::{Terms, Wanted, ratelimit, scheduler, slice};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{self, Kind};

/// An argument that is wrong: which, and why.
pub(crate) fn wrong(py: Python<'_>, argument: &str, why: impl std::fmt::Display) -> PyErr {
    error::wrong(py, Kind::Argument, format!("{argument}: {why}"))
}

/// A policy: the file at a path, or a text with a line break or `=` in it.
pub(crate) fn policy(py: Python<'_>, text: Option<&str>) -> PyResult<Option<Policy>> {
    let Some(text) = text else { return Ok(None) };
    let policy = match text.contains(['\n', '=']) || text.is_empty() {
        true => Policy::parse("policy", text).map_err(Into::into),
        false => Policy::read(&PathBuf::from(text)),
    };
    policy.map(Some).map_err(|error| error::policy(py, &error))
}

fn span(
    py: Python<'_>,
    argument: &str,
    text: Option<&str>,
    read: fn(&str) -> Result<Duration, String>,
) -> PyResult<Option<Duration>> {
    text.map(|text| read(text).map_err(|why| wrong(py, argument, why))).transpose()
}

/// A `dict` as pairs.
fn pairs<'py, T>(
    dict: Option<&Bound<'py, PyDict>>,
    of: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<(String, T)>> {
    let all = dict.into_iter().flat_map(|dict| dict.iter());
    all.map(|(key, item)| Ok((key.extract()?, of(&item)?))).collect()
}

/// CPUs as text, such as `0-3,8`, or as a list of numbers.
fn cpus(item: &Bound<'_, PyAny>) -> PyResult<CpuSet> {
    let py = item.py();
    let numbers: Vec<usize> = match item.extract::<String>() {
        Ok(text) => parse_cpus(&text).map_err(|why| wrong(py, "pins", why))?.into_iter().collect(),
        Err(_) => item.extract()?,
    };
    let known = |cpu: usize| u16::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_PCPUS);
    let cpus: Option<CpuSet> = numbers.into_iter().map(|cpu| known(cpu).map(Pcpu)).collect();
    let cpus = cpus.filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| wrong(py, "pins", "CPUs such as \"0-3,8\" or [0, 1]"))
}

/// What stands at `key` of a dict; None is nothing.
fn item<'py, T: for<'a> FromPyObject<'a, 'py, Error = PyErr>>(
    dict: &Bound<'py, PyDict>,
    key: &str,
) -> PyResult<Option<T>> {
    let found = dict.get_item(key)?.filter(|item| !item.is_none());
    found.map(|item| item.extract()).transpose()
}

fn text(dict: &Bound<'_, PyDict>, key: &str) -> PyResult<Option<String>> {
    item(dict, key)
}

/// The dict at `key`.
fn inner<'py>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
    let found = dict.get_item(key)?.filter(|item| !item.is_none());
    found.map(|item| Ok(item.cast_into::<PyDict>()?)).transpose()
}

/// What a recording does not say of its host, by keywords of Python's `predict`.
pub(crate) fn terms(said: &Bound<'_, PyDict>) -> PyResult<Terms> {
    let py = said.py();
    let limit = text(said, "recorded_ratelimit")?;
    let of_credit = text(said, "recorded_slice")?;
    Ok(Terms {
        kernel: text(said, "kernel")?,
        names: pairs(inner(said, "names")?.as_ref(), |name| name.extract())?,
        policy: policy(py, text(said, "recorded_policy")?.as_deref())?,
        ratelimit: span(py, "recorded_ratelimit", limit.as_deref(), ratelimit)?,
        slice: span(py, "recorded_slice", of_credit.as_deref(), slice)?,
    })
}

/// What shall be otherwise, by keywords of Python's `predict`.
pub(crate) fn wanted(asked: &Bound<'_, PyDict>) -> PyResult<Wanted> {
    let py = asked.py();
    let named = |name: &str| scheduler(name).map_err(|why| wrong(py, "scheduler", why));
    let wanted = Wanted {
        policy: policy(py, text(asked, "policy")?.as_deref())?,
        scheduler: text(asked, "scheduler")?.as_deref().map(named).transpose()?,
        ratelimit: span(py, "ratelimit", text(asked, "ratelimit")?.as_deref(), ratelimit)?,
        slice: span(py, "slice", text(asked, "slice")?.as_deref(), slice)?,
        cpus: item(asked, "cpus")?,
        without: item(asked, "without")?.unwrap_or_default(),
        add: pairs(inner(asked, "add")?.as_ref(), |count| count.extract())?,
        pins: pairs(inner(asked, "pins")?.as_ref(), cpus)?,
    };
    Ok(wanted.before_policy())
}
