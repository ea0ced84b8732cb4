//! Why figures are far off, where somebody has found out: a file that people write.

use std::path::Path;

use lowtail_config_text::{FileError, KeyError, LocatedError, SpanError, read, tree};
use serde::Deserialize;

use super::judged::Judged;
use crate::figure::Kind;

/// Largest file; a cause for each figure of ten reports is a tenth of it.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Why a file of causes is refused.
#[derive(Debug)]
pub enum Error {
    /// The file as a whole.
    File(FileError),
    /// A place in it.
    At(LocatedError),
}

/// The cause of a figure's error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// The system, such as `linux-6.18`.
    pub system: String,
    /// The report's seed.
    pub seed: u64,
    /// Number of the scenario.
    pub scenario: u32,
    /// The VM or control group.
    pub vm: String,
    /// The figure.
    pub figure: Kind,
    /// The cause, in a sentence.
    pub cause: String,
}

/// All that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Causes {
    cause: Vec<Cause>,
}

impl Causes {
    /// Reads the file at `path`, about the figures of `all`.
    ///
    /// # Errors
    /// If it cannot be read, or as [`Causes::parse`].
    pub fn read(path: &Path, all: &[Judged]) -> Result<Self, Error> {
        let text = read(path, FILE_BYTES_MAX, "causes").map_err(Error::File)?;
        Self::parse(&path.display().to_string(), &text, all).map_err(Error::At)
    }

    /// Reads `text`, called `file` in errors.
    ///
    /// # Errors
    /// If it is no such file, or a cause is of a figure that no report has, or that has one already.
    pub fn parse(file: &str, text: &str, all: &[Judged]) -> Result<Self, LocatedError> {
        let parse = || {
            let root = tree::parse(text, FILE_BYTES_MAX)?;
            let causes: Causes = tree::decode(root.clone())?;
            causes.check(all).map_err(|wrong| wrong.within(&root))?;
            Ok(causes)
        };
        parse().map_err(|fault: SpanError| fault.locate(file, text))
    }

    fn check(&self, all: &[Judged]) -> Result<(), KeyError> {
        for (i, cause) in self.cause.iter().enumerate() {
            let wrong = |key: &str, message: String| {
                Err(KeyError::new(key, message).under(&["cause", &i.to_string()]))
            };
            let Some(judged) = all.iter().find(|judged| judged.system.id() == cause.system) else {
                return wrong("system", format!("no report is of {}", cause.system));
            };
            let seed = judged.report.settings.seed;
            if seed != cause.seed {
                let message = format!("the report of {} is of seed {seed}", cause.system);
                return wrong("seed", format!("{message}: the cause is stale, remove it"));
            }
            let mut figures = judged.report.figures();
            if !figures.any(|(scenario, figure)| cause.is_of(scenario, &figure.of, figure.figure)) {
                let message = "the report has no such figure: the cause is stale, remove it";
                return wrong("scenario", message.to_string());
            }
            let names = |other: &Cause| {
                other.system == cause.system && other.is_of(cause.scenario, &cause.vm, cause.figure)
            };
            if self.cause[..i].iter().any(names) {
                return wrong("cause", "this figure has a cause already".to_string());
            }
        }
        Ok(())
    }

    /// The cause of a figure, if it is known.
    pub fn of(&self, system: &str, scenario: u32, vm: &str, figure: Kind) -> Option<&str> {
        let mut causes = self.cause.iter().filter(|cause| cause.system == system);
        causes.find(|cause| cause.is_of(scenario, vm, figure)).map(|cause| cause.cause.as_str())
    }
}

impl Cause {
    fn is_of(&self, scenario: u32, vm: &str, figure: Kind) -> bool {
        (self.scenario, self.vm.as_str(), self.figure) == (scenario, vm, figure)
    }
}
