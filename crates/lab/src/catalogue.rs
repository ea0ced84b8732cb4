//! The experiments and cost files that are part of the binary.

use std::path::Path;

use crate::error::{Error, nearest};
use crate::experiment::Experiment;
use crate::tree::FILE_BYTES_MAX;

/// A file of `experiments/` or `costs/`.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// Its name without `.toml`.
    pub name: &'static str,
    /// Its content.
    pub text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

impl Embedded {
    /// Reads it as an experiment.
    ///
    /// # Errors
    /// If it is not one; a test keeps this from happening to what is shipped.
    pub fn load(&self) -> Result<Experiment, Error> {
        Experiment::parse(&format!("experiments/{}.toml", self.name), self.text, None)
    }
}

/// All experiments, by name.
pub fn catalogue() -> &'static [Embedded] {
    EXPERIMENTS
}

/// All cost files, by name.
pub fn costs() -> &'static [Embedded] {
    COSTS
}

/// The experiment of the catalogue called `name`.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static Embedded, Error> {
    if let Some(found) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) {
        return Ok(found);
    }
    let near = nearest(name, EXPERIMENTS.iter().map(|experiment| experiment.name));
    let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Err(Error::NoSuchExperiment { name: name.to_string(), hint })
}

/// Reads the scenario file at `path`.
///
/// # Errors
/// If it cannot be read, or is no scenario; the error names file, line and column.
pub fn load(path: &Path) -> Result<Experiment, Error> {
    let text = read(path)?;
    Experiment::parse(&path.display().to_string(), &text, path.parent())
}

/// The text of a file of reasonable size.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    use std::io::Read;
    let file = path.display().to_string();
    let wrong = |message: String| Error::File { file: file.clone(), message };
    let opened = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    opened.take(limit).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(wrong(format!("larger than {} MiB, no scenario file", FILE_BYTES_MAX >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("not UTF-8: byte {at} (from 0) is no text; save it as UTF-8"))
    })
}
