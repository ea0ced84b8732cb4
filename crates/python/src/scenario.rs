//! Scenarios, from the catalogue, from files, from text, and from Python.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lowtail_lab::{Experiment, Override};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{self, Kind};
use crate::value;

/// A scenario: hosts, VMs, networks and what is measured, in cases. docs/reference/scenario.md has the keys.
///
/// `Scenario({...})` is one built in Python: a dict with the keys of a scenario file. `Scenario.load(name_or_path)` has one of the
/// catalogue, or a file; `Scenario.from_toml(text)` has a text.
#[pyclass(module = "lowtail", frozen)]
#[derive(Debug)]
pub(crate) struct Scenario {
    path: String,
    text: String,
    base: Option<PathBuf>,
    pub(crate) experiment: Arc<Experiment>,
}

/// Overrides, of a dict from key to value.
pub(crate) fn overrides(set: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<Override>> {
    let Some(set) = set else { return Ok(Vec::new()) };
    let one = |(key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<Override> {
        let (key, value): (String, _) = (key.extract()?, value::value(&item)?.to_string());
        Override::new(&key, &value).map_err(|why| error::wrong(item.py(), Kind::Argument, why))
    };
    set.iter().map(one).collect()
}

impl Scenario {
    /// Name, text and directory; refused if values were set, which the text does not have.
    pub(crate) fn parts(&self, py: Python<'_>) -> PyResult<(String, String, Option<PathBuf>)> {
        if let Some(first) = self.experiment.overrides.first() {
            let why = format!("`{first}` was set: tune a scenario whose text says it");
            return Err(error::wrong(py, Kind::Argument, why));
        }
        Ok((self.path.clone(), self.text.clone(), self.base.clone()))
    }

    fn parse(
        py: Python<'_>,
        path: &str,
        text: String,
        base: Option<&Path>,
        overrides: &[Override],
    ) -> PyResult<Self> {
        let experiment = py.detach(|| Experiment::parse_with(path, &text, base, overrides));
        let experiment = Arc::new(experiment.map_err(|error| error::lab(py, &error))?);
        let base = base.map(Path::to_path_buf);
        Ok(Scenario { path: path.to_owned(), text, base, experiment })
    }
}

#[pymethods]
impl Scenario {
    #[new]
    #[pyo3(signature = (scenario, *, name = "scenario.toml"))]
    fn new(py: Python<'_>, scenario: &Bound<'_, PyDict>, name: &str) -> PyResult<Self> {
        let text = toml::to_string(&value::table(scenario)?);
        let text = text.map_err(|why| error::wrong(py, Kind::Scenario, why))?;
        Self::parse(py, name, text, None, &[])
    }

    /// The experiment of the catalogue called so, or the scenario file at a path (it ends in `.toml` or has a `/`).
    ///
    /// `set` has values in place of the file's, by dotted key: `{"host.pcpus": 4}`.
    #[staticmethod]
    #[pyo3(signature = (name_or_path, *, set = None))]
    fn load(
        py: Python<'_>,
        name_or_path: PathBuf,
        set: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (name, set) = (name_or_path.display().to_string(), overrides(set)?);
        if lowtail_lab::is_path(&name) {
            std::fs::metadata(&name_or_path).map_err(|why| error::os(&name, &why))?;
            let text = py.detach(|| lowtail_lab::read_scenario(&name_or_path));
            let text = text.map_err(|error| error::lab(py, &error))?;
            return Self::parse(py, &name, text, name_or_path.parent(), &set);
        }
        let found = lowtail_lab::find(&name).map_err(|error| error::lab(py, &error))?;
        Self::parse(py, &found.path(), found.text.to_owned(), None, &set)
    }

    /// The scenario that a text of TOML says, called `name` in errors. Paths in it start at the directory `base`.
    #[staticmethod]
    #[pyo3(signature = (text, *, name = "scenario.toml", base = None, set = None))]
    fn from_toml(
        py: Python<'_>,
        text: String,
        name: &str,
        base: Option<PathBuf>,
        set: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let set = overrides(set)?;
        Self::parse(py, name, text, base.as_deref(), &set)
    }

    /// The same with other values in place of some of its own, by dotted key.
    fn with_values(&self, py: Python<'_>, set: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut all = self.experiment.overrides.clone();
        all.extend(overrides(Some(set))?);
        Self::parse(py, &self.path, self.text.clone(), self.base.as_deref(), &all)
    }

    /// Its short name.
    #[getter]
    fn name(&self) -> &str {
        &self.experiment.name
    }

    /// Its title.
    #[getter]
    fn title(&self) -> &str {
        &self.experiment.file.title
    }

    /// Where it was published, if it was.
    #[getter]
    fn source(&self) -> &str {
        &self.experiment.file.source
    }

    /// The file that it was read from, or what it is called in errors.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// The seed of a run that says none.
    #[getter]
    fn seed(&self) -> u64 {
        self.experiment.file.seed
    }

    /// By how many seeds each case is run if a run does not say it.
    #[getter]
    fn seeds(&self) -> u16 {
        self.experiment.file.seeds
    }

    /// What was set in place of the file's values, as a list of (key, value in TOML).
    #[getter]
    fn overrides(&self) -> Vec<(String, String)> {
        let all = self.experiment.overrides.iter();
        all.map(|one| (one.key.clone(), one.value.clone())).collect()
    }

    /// The names of its cases; with `full` those of the longer form.
    #[pyo3(signature = (*, full = false))]
    fn cases(&self, full: bool) -> Vec<String> {
        self.experiment.cases(full).iter().map(|case| case.name.clone()).collect()
    }

    /// The text of the file, without what was set.
    fn to_toml(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        let (name, cases) = (&self.experiment.name, self.experiment.cases(false).len());
        format!("<lowtail.Scenario {name}: {cases} cases>")
    }

    /// Pickled as what it was made of.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        let rebuild = py.import("lowtail._lowtail")?.getattr("Scenario")?.getattr("_of_parts")?;
        Ok((rebuild, (self.path.clone(), self.text.clone(), self.base.clone(), self.overrides())))
    }

    #[staticmethod]
    fn _of_parts(
        py: Python<'_>,
        path: String,
        text: String,
        base: Option<PathBuf>,
        overrides: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let all = overrides.iter().map(|(key, value)| Override::new(key, value));
        let all = all.collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|why| error::wrong(py, Kind::Argument, why))?;
        Self::parse(py, &path, text, base.as_deref(), &all)
    }
}

/// What a scenario is pickled as.
type Parts = (String, String, Option<PathBuf>, Vec<(String, String)>);

/// The experiments of the catalogue, as a list of (name, number of cases, title).
#[pyfunction]
pub(crate) fn experiments(py: Python<'_>) -> PyResult<Vec<(String, usize, String)>> {
    let mut all = Vec::new();
    for embedded in lowtail_lab::catalogue() {
        let experiment = embedded.load().map_err(|error| error::lab(py, &error))?;
        let cases = experiment.cases(false).len();
        all.push((embedded.name.to_owned(), cases, experiment.file.title));
    }
    Ok(all)
}
