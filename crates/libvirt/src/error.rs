//! What is wrong with a file, and where.

/// A file that is no VM of libvirt's, or one that libvirt refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", lowtail_out::line(file))]
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
pub(crate) struct XmlError {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl XmlError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        XmlError { at, message: message.into() }
    }

    /// The same in `text`, which is called `file`.
    pub(crate) fn within(self, file: &str, text: &str) -> DomainError {
        let (line, column) = line_and_column(text, self.at);
        DomainError { file: file.to_string(), line, column, message: self.message }
    }
}

/// Line and column (in characters), both from 1, of the byte at `offset`.
fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    (line as u32, before[start..].chars().count() as u32 + 1)
}
