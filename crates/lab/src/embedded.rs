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
