//! Standard output and standard error: no panic when the reader has gone, and nothing that a terminal would obey but
//! colours. All that people read goes through here.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lowtail_out::{Access, Output};

use crate::exit::Fail;
use crate::global::{Color, Global};

/// Bold red, and plain again.
pub(crate) const RED: (&str, &str) = ("\x1b[1;31m", "\x1b[0m");

/// Standard output is one of the outputs that the user has named: what people read goes to standard error.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Says which outputs there will be, each with its option: one at most is standard output, which then has nothing else.
pub(crate) fn outputs(outputs: &[(&str, Option<&Path>)], global: &Global) -> Result<(), Fail> {
    let standard: Vec<&str> = outputs
        .iter()
        .filter(|(_, path)| path.is_some_and(lowtail_out::is_standard_output))
        .map(|(option, _)| *option)
        .collect();
    match standard[..] {
        [] => {}
        [option] if global.json => {
            let why = "is standard output, where --json prints; give a file";
            return Err(Fail::Usage(format!("{option} {why}")));
        }
        [_] => TAKEN.store(true, Ordering::Relaxed),
        [first, second, ..] => {
            let why = "are both standard output; give files";
            return Err(Fail::Usage(format!("{first} and {second} {why}")));
        }
    }
    Ok(())
}

/// Writes text for people.
pub(crate) fn text(text: &str) -> Result<(), Fail> {
    people(&lowtail_out::lines(text))
}

/// Writes text for people that may have colours of ours; names in it are escaped already.
pub(crate) fn coloured(text: &str, color: bool) -> Result<(), Fail> {
    let shown =
        if color { Cow::Owned(lowtail_out::coloured(text)) } else { lowtail_out::lines(text) };
    people(&shown)
}

fn people(text: &str) -> Result<(), Fail> {
    if TAKEN.load(Ordering::Relaxed) {
        let _ = std::io::stderr().write_all(text.as_bytes());
        return Ok(());
    }
    bytes(text.as_bytes())
}

/// `value` as JSON.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Result<serde_json::Value, Fail> {
    serde_json::to_value(value).map_err(|error| Fail::Bug(format!("JSON: {error}")))
}

/// Writes JSON, indented, with a line end.
pub(crate) fn json(value: &serde_json::Value) -> Result<(), Fail> {
    bytes(lowtail_out::json(&format!("{value:#}\n")).as_bytes())
}

/// Writes JSON as a line.
pub(crate) fn json_line(value: &serde_json::Value) -> Result<(), Fail> {
    bytes(lowtail_out::json(&format!("{value}\n")).as_bytes())
}

/// Writes what a user has asked for as it is; on a terminal, or where `--color always` says that there will be one, as that may have it.
pub(crate) fn data(text: &str, global: &Global) -> Result<(), Fail> {
    let always = matches!(global.color, Color::Always);
    if always || std::io::stdout().is_terminal() {
        return self::text(text);
    }
    bytes(text.as_bytes())
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
    let _ = writeln!(std::io::stderr(), "{}", lowtail_out::lines(text));
}

/// The same for what is said beside a result, unless `--quiet` is given.
pub(crate) fn remark(global: &Global, text: &str) {
    if !global.quiet {
        note(text);
    }
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

/// A file of text, which appears when all is written.
pub(crate) struct TextFile<'a> {
    pub(crate) path: &'a Path,
    file: Output,
}

impl<'a> TextFile<'a> {
    /// For `path`: what is there stays until all is written.
    pub(crate) fn new(path: &'a Path) -> Result<Self, Fail> {
        let file = Output::create(path, Access::Usual);
        Ok(TextFile { path, file: file.map_err(|error| Self::wrong(path, &error))? })
    }

    /// Writes `text`.
    pub(crate) fn finish(mut self, text: &str) -> Result<(), Fail> {
        let written = self.file.write_all(text.as_bytes());
        written.and_then(|()| self.file.commit()).map_err(|error| Self::wrong(self.path, &error))
    }

    fn wrong(path: &Path, error: &io::Error) -> Fail {
        Fail::Host(format!("{}: {error}", lowtail_out::path(path)))
    }
}
