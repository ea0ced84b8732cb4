//! What can be wrong with a scenario file, and where.

pub use lowtail_config_text::{FileError, LocatedError};
pub(crate) use lowtail_config_text::{KeyError, SpanError, hint, nearest};

/// Says that no `what` is called `name`, and what there is instead.
pub(crate) fn unknown(what: &str, name: &str, known: &[String]) -> String {
    format!("no {what} is called `{name}`; {}", hint(name, known.iter().map(String::as_str)))
}

/// Why an experiment cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A place in a file and what is wrong there.
    #[error(transparent)]
    At(#[from] LocatedError),
    /// A file that is wrong as a whole.
    #[error(transparent)]
    File(#[from] FileError),
    /// No experiment has this name.
    #[error("no experiment is called `{name}`{hint}")]
    NoSuchExperiment {
        /// The name asked for.
        name: String,
        /// A nearby name, if there is one.
        hint: String,
    },
    /// No case of the experiment has this name.
    #[error("{experiment}: no case is called `{name}`; {hint}")]
    NoSuchCase {
        /// The experiment.
        experiment: String,
        /// The name asked for.
        name: String,
        /// A nearby name, or some of them.
        hint: String,
    },
    /// No link to look at.
    #[error("{experiment}, case `{case}`: {message}")]
    NoSuchLink {
        /// The experiment.
        experiment: String,
        /// The case.
        case: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A piece of a run is missing.
    #[error("{experiment}, case `{case}`: the piece by seed {seed} is missing")]
    NoPiece {
        /// The experiment.
        experiment: String,
        /// The case.
        case: String,
        /// The seed.
        seed: u64,
    },
    /// No scheduler has this name.
    #[error("no scheduler is called `{name}`; {hint}")]
    NoSuchScheduler {
        /// The name asked for.
        name: String,
        /// A nearby name, or all of them.
        hint: String,
    },
    /// The simulator itself failed: a bug of ours.
    #[error("{experiment}, case `{case}`, seed {seed}: the simulator failed: {message}")]
    Simulator {
        /// The experiment.
        experiment: String,
        /// The case.
        case: String,
        /// The seed that repeats it.
        seed: u64,
        /// What the failed check said.
        message: String,
    },
}
