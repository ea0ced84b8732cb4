//! Files of reasonable size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file that is wrong as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", lowtail_out::line(file))]
pub struct FileError {
    /// The file as the user named it.
    pub file: String,
    /// What is wrong with it.
    pub message: String,
    /// Whether the host is short of something, so that nothing is known of the file.
    pub is_hosts: bool,
}

impl FileError {
    /// A file that is wrong, and why.
    pub fn new(file: impl Into<String>, message: impl Into<String>) -> Self {
        FileError { file: file.into(), message: message.into(), is_hosts: false }
    }

    /// A file that could not be read.
    pub fn io(file: &str, error: &io::Error) -> Self {
        // ENFILE, EMFILE: errno(3), the same numbers on all of Linux.
        let is_hosts = error.kind() == io::ErrorKind::OutOfMemory
            || matches!(error.raw_os_error(), Some(23 | 24));
        FileError { is_hosts, ..FileError::new(file, error.to_string()) }
    }
}

/// The text of a file that is no larger than `bytes_max`; `what` it should be, in messages.
///
/// # Errors
/// If it cannot be read, is larger, or is no text.
pub fn read(path: &Path, bytes_max: usize, what: &str) -> Result<String, FileError> {
    let file = path.display().to_string();
    let wrong = |message: String| FileError::new(&file, message);
    let failed = |error: io::Error| FileError::io(&file, &error);
    let opened = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    opened.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > bytes_max {
        return Err(wrong(format!("larger than {} MiB, no {what} file", bytes_max >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("not UTF-8: byte {at} (from 0) is no text; save it as UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// errno(3): ENOMEM 12, ENFILE 23, EMFILE 24 are of the host; ENOENT 2, EACCES 13, EISDIR 21 of the file.
    #[test]
    fn what_the_host_is_short_of_is_no_wrong_file() {
        let is_hosts = |errno| FileError::io("a", &io::Error::from_raw_os_error(errno)).is_hosts;
        assert_eq!([12, 23, 24].map(is_hosts), [true; 3]);
        assert_eq!([2, 13, 21].map(is_hosts), [false; 3]);
        assert!(!read(Path::new("/no/such/file"), 1, "any").expect_err("none").is_hosts);
    }
}
