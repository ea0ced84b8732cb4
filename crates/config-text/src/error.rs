//! What is wrong in a text, and where.

use std::ops::Range;

/// A place in a file and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", lowtail_out::line(file))]
pub struct LocatedError {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Something wrong at a span of bytes of a text that is known elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanError {
    /// From which byte to before which.
    pub span: Range<usize>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl SpanError {
    /// One at `span`.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        SpanError { span, message: message.into() }
    }

    /// The error for the user: line and column instead of bytes.
    pub fn locate(self, file: &str, text: &str) -> LocatedError {
        let (line, column) = line_and_column(text, self.span.start);
        LocatedError {
            file: file.to_string(),
            line,
            column,
            // One line: a value with a line break in it would write the next message itself.
            message: lowtail_out::line(&self.message).into_owned(),
        }
    }
}

/// Line and column (in characters), both from 1, of the byte at `offset`.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        let text = "a\nµ = 5\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, text.find('5').unwrap()), (2, 5));
        assert_eq!(line_and_column(text, 999), (3, 1));
    }

    #[test]
    fn a_value_writes_no_message_of_its_own() {
        let fault = SpanError::new(0..1, "unknown value `a\n\tx.toml:9:9: all is well\u{1b}`");
        let located = fault.locate("x.toml", "a");
        let wanted = r"x.toml:1:1: unknown value `a\u{a}\u{9}x.toml:9:9: all is well\u{1b}`";
        assert_eq!(located.to_string(), wanted);
    }
}
