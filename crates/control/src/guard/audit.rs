//! What was decided and changed, line after line, for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Decision;
use crate::manage::Knob;
use lowtail_kernel::journal::make_dir;

const FILE: &str = "host.audit";

/// A decision, or a change that came of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, in milliseconds since 1970, as [`Audit::add`] is told: nothing here goes by the time of day.
    pub unix_ms: u64,
    /// What was decided, in a word.
    pub decision: String,
    /// Of which VM: its name, as given.
    pub vm: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// What was changed.
    pub setting: Option<String>,
    /// The value before.
    pub before: Option<String>,
    /// The value after.
    pub after: Option<String>,
    /// Why, with figures.
    pub reason: String,
}

impl Line {
    /// Of a decision.
    pub fn decided(decision: &Decision) -> Self {
        Line {
            decision: decision.kind.word().to_string(),
            vm: decision.vm.clone(),
            pid: decision.pid,
            reason: decision.reason.clone(),
            ..Line::default()
        }
    }

    /// Of a value that was changed, or restored.
    pub fn changed(knob: &Knob, before: &str, after: &str, restores: bool, reason: &str) -> Self {
        Line {
            decision: if restores { "restore" } else { "apply" }.to_string(),
            setting: Some(knob.to_string()),
            before: Some(before.to_string()),
            after: Some(after.to_string()),
            reason: reason.to_string(),
            ..Line::default()
        }
    }

    /// Of something that was decided by a person.
    pub fn told(decision: &str, reason: &str) -> Self {
        let (decision, reason) = (decision.to_string(), reason.to_string());
        Line { decision, reason, ..Line::default() }
    }
}

/// The file, to which lines are only added.
#[derive(Debug)]
pub struct Audit(File);

impl Audit {
    /// The one in `dir`. What a killed process has left of a line stays a line of its own.
    ///
    /// # Errors
    /// If it cannot be opened or written.
    pub fn open(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        let mut how = OpenOptions::new();
        let mut file = how.read(true).append(true).create(true).mode(0o600).open(dir.join(FILE))?;
        if file.metadata()?.len() > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Audit(file))
    }

    /// Adds these lines, of this time; they are on disk then.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn add(&mut self, unix_ms: u64, lines: &[Line]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, &Line { unix_ms, ..line.clone() })?;
            text.push(b'\n');
        }
        self.0.write_all(&text)?;
        self.0.sync_data()
    }

    /// All lines in `dir` that are whole.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(dir: &Path) -> io::Result<Vec<Line>> {
        let text = match std::fs::read(dir.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let lines = text.split(|&byte| byte == b'\n');
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_torn_line_stays_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(FILE);
        assert_eq!(Audit::read(dir.path()).expect("none"), []);
        let lines = ["a\n\u{1b}", "b"].map(|why| Line { unix_ms: 5, ..Line::told("retry", why) });
        Audit::open(dir.path()).expect("new").add(5, &lines[..1]).expect("written");
        // A process was killed here.
        let mut file = OpenOptions::new().append(true).open(&path).expect("it is there");
        file.write_all(b"{\"unix_ms\":17,\"deci").expect("written");
        Audit::open(dir.path()).expect("there").add(5, &lines[1..]).expect("written");
        assert_eq!(Audit::read(dir.path()).expect("there"), lines);
        let mode = path.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
