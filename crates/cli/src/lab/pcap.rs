//! The file of `--pcap`: what was on some links of one case's network.

use std::io::{self, Write};
use std::path::Path;

use lowtail_lab::Outcome;
use lowtail_out::{Access, Output};

use crate::exit::Fail;

/// The file, which appears when all is written.
pub(super) struct Frames<'a> {
    path: &'a Path,
    file: Output,
    /// What it has, for the reader of the terminal.
    text: String,
}

impl<'a> Frames<'a> {
    /// Begins the file.
    pub(super) fn new(path: &'a Path) -> Result<Self, Fail> {
        let file = Output::create(path, Access::Usual);
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(Frames { path, file, text: String::new() })
    }

    /// Writes the frames of the one case that has some, and lets go of them.
    pub(super) fn take(&mut self, outcome: &mut Outcome) -> Result<(), Fail> {
        for case in &mut outcome.cases {
            let Some(captured) = case.captured.take() else { continue };
            let written = self.file.write_all(&captured.file);
            written.map_err(|error| cannot_write(self.path, &error))?;
            let links = captured.links.join(", ");
            self.text = format!("{} frames on {links}", captured.frames);
            if captured.more > 0 {
                self.text +=
                    &format!(", and {} later ones not written (--pcap-frames)", captured.more);
            }
        }
        Ok(())
    }

    /// Puts the file in its place, and says what is in it.
    pub(super) fn finish(self) -> Result<String, Fail> {
        self.file.commit().map_err(|error| cannot_write(self.path, &error))?;
        Ok(format!("{}: {}", self.text, lowtail_out::path(self.path)))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Fail {
    Fail::Host(format!("{}: {error}", lowtail_out::path(path)))
}
