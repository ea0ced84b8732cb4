//! What is wrong with a file, and where.

/// A file that is no machine of libvirt's, or one that libvirt refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct DomainError {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Something wrong at a byte of a text that is known elsewhere.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Fault { at, message: message.into() }
    }
}
