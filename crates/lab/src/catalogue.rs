//! Experiments by name, and scenario files by path.

use std::path::Path;

use crate::embedded::{Embedded, experiments, read};
use crate::error::{Error, nearest};
use crate::experiment::Experiment;
use crate::overrides::Override;

impl Embedded {
    /// Reads it as an experiment.
    ///
    /// # Errors
    /// If it is not one; a test keeps this from happening to what is shipped.
    pub fn load(&self) -> Result<Experiment, Error> {
        self.load_with(&[])
    }

    /// The same with other values in place of some of its own.
    ///
    /// # Errors
    /// If it is none any more with these.
    pub fn load_with(&self, overrides: &[Override]) -> Result<Experiment, Error> {
        Experiment::parse_with(&self.path(), self.text, None, overrides)
    }

    /// What the file of an experiment is called.
    pub fn path(&self) -> String {
        format!("experiments/{}.toml", self.name)
    }
}

/// Whether that is the path of a scenario file, and not the name of an experiment: what ends in `.toml` or has a `/`.
pub fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

/// The experiment of the catalogue called `name`.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static Embedded, Error> {
    if let Some(found) = experiments().iter().find(|experiment| experiment.name == name) {
        return Ok(found);
    }
    let near = nearest(name, experiments().iter().map(|experiment| experiment.name));
    let hint = near.map_or_else(
        || "; `lowtail lab list` shows all".to_string(),
        |near| format!("; did you mean `{near}`?"),
    );
    Err(Error::NoSuchExperiment { name: name.to_string(), hint })
}

/// Reads the scenario file at `path`.
///
/// # Errors
/// If it cannot be read, or is no scenario; the error names file, line and column.
pub fn load(path: &Path) -> Result<Experiment, Error> {
    load_with(path, &[])
}

/// The same with other values in place of some of the file's.
///
/// # Errors
/// As [`load()`].
pub fn load_with(path: &Path, overrides: &[Override]) -> Result<Experiment, Error> {
    let text = read(path)?;
    Experiment::parse_with(&path.display().to_string(), &text, path.parent(), overrides)
}
