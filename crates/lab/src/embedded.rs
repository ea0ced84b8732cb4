//! The experiments and cost files that are part of the binary, and how files are read.

use std::path::Path;

use crate::error::Error;
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

/// All experiments, by name.
pub fn experiments() -> &'static [Embedded] {
    EXPERIMENTS
}

/// All cost files, by name.
pub fn costs() -> &'static [Embedded] {
    COSTS
}

/// The text of the scenario file at `path`.
///
/// # Errors
/// If it cannot be read, or is too long.
pub fn read(path: &Path) -> Result<String, Error> {
    Ok(lowtail_config_text::read(path, FILE_BYTES_MAX, "scenario")?)
}
