//! Standard output, without a panic when the reader has gone.

use std::io::{IsTerminal, Write};

use crate::args::{Color, Global};
use crate::exit::Fail;

/// Bold red, and plain again.
pub(crate) const RED: (&str, &str) = ("\x1b[1;31m", "\x1b[0m");

/// Writes text.
pub(crate) fn text(text: &str) -> Result<(), Fail> {
    bytes(text.as_bytes())
}

/// Writes JSON, indented, with a line end.
pub(crate) fn json(value: &serde_json::Value) -> Result<(), Fail> {
    text(&format!("{value:#}\n"))
}

/// Writes bytes.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Fail> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        // `lowtail … | head` is no mistake.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Fail::Host(format!("standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Writes a line to standard error, and no more than tries: there may be nobody to read it.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether to colour what goes to standard output.
pub(crate) fn color(global: &Global) -> bool {
    match global.color {
        Color::Always => true,
        Color::Never => false,
        // https://no-color.org
        Color::Auto => {
            let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            std::io::stdout().is_terminal() && !unwanted
        }
    }
}
