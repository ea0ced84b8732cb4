//! Files of reasonable size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A file that is wrong as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", lowtail_out::line(file))]
pub struct Unreadable {
    /// The file as the user named it.
    pub file: String,
    /// What is wrong with it.
    pub message: String,
}

/// The text of a file that is no larger than `bytes_max`; `what` it should be, in messages.
///
/// # Errors
/// If it cannot be read, is larger, or is no text.
pub fn read(path: &Path, bytes_max: usize, what: &str) -> Result<String, Unreadable> {
    let file = path.display().to_string();
    let wrong = |message: String| Unreadable { file: file.clone(), message };
    let opened = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    opened.take(limit).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() > bytes_max {
        return Err(wrong(format!("larger than {} MiB, no {what} file", bytes_max >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("not UTF-8: byte {at} (from 0) is no text; save it as UTF-8"))
    })
}
