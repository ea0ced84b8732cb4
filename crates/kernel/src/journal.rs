//! What we have made on the host, written down before it is made.
//!
//! One file for each process, named after it, with one line a directory. A line is on disk
//! before its directory is made, so that whatever a killed process has left is listed. The
//! next run undoes the journals of dead processes. A torn last line is that of a directory
//! that was not made.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;

use crate::error::Error;
use crate::process::Process;

/// How long a group may stay busy: a thread that was killed is gone when it has been let run
/// again, and a throttled one waits for that up to the longest period, 1 s, and what it owes.
const PATIENCE: Duration = Duration::from_secs(5);
/// From one try to the next.
const PAUSE: Duration = Duration::from_millis(5);
const SUFFIX: &str = ".journal";

/// The journal of this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// Where journals are: `/run/lowtail` for root, else below `$XDG_RUNTIME_DIR`. Both are gone
/// after a boot, as control groups are.
pub fn directory() -> PathBuf {
    let user = || std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    match user() {
        Some(dir) if !geteuid().is_root() => Path::new(&dir).join("lowtail"),
        _ => PathBuf::from("/run/lowtail"),
    }
}

impl Journal {
    /// An empty journal of this process in `dir`; creates that.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(dir: &Path) -> Result<Self, Error> {
        make_dir(dir).map_err(|error| Error::file("cannot make", dir, error))?;
        let own = Process::own();
        let own = own.map_err(|error| Error::file("cannot read", Path::new("/proc"), error))?;
        // Two journals of one process would be two runs in it at the same time.
        let free = (0..).map(|n| dir.join(format!("{own}.{n}{SUFFIX}")));
        for path in free {
            let opened = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
            match opened {
                Ok(file) => {
                    sync_dir(dir).map_err(|error| Error::file("cannot write", dir, error))?;
                    return Ok(Journal { path, file });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file("cannot write", &path, error)),
            }
        }
        unreachable!("the numbers do not end")
    }

    /// The name of this process and run, for names that nobody else has: `1234-567890.0`.
    pub fn name(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_suffix(SUFFIX).unwrap_or(name)
    }

    /// Makes the directory `group` of a control group; it is written down first.
    ///
    /// # Errors
    /// If it cannot be written down, or made.
    pub fn make(&mut self, group: &Path) -> Result<(), Error> {
        let path = group.as_os_str().as_bytes();
        let written = if path.contains(&b'\n') {
            // It would be two lines, of which neither is a directory of ours.
            Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has a line break"))
        } else {
            let line = [path, b"\n"].concat();
            self.file.write_all(&line).and_then(|()| self.file.sync_data())
        };
        written.map_err(|error| Error::file("cannot write", &self.path, error))?;
        fs::create_dir(group).map_err(|error| Error::file("cannot make", group, error))
    }

    /// Removes all that was made, last first, and the journal.
    ///
    /// # Errors
    /// If something cannot be removed; the journal stays then.
    pub fn undo(&self) -> Result<(), Error> {
        undo(&self.path)
    }
}

/// Undoes the journals of dead processes in `dir`; gives the number of directories removed.
///
/// # Errors
/// If something cannot be removed: not by us, or a thread of somebody else is in it.
pub fn sweep(dir: &Path) -> Result<usize, Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Error::file("cannot read", dir, error)),
    };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| {
            let (owner, _) = name.strip_suffix(SUFFIX)?.split_once('.')?;
            Process::parse(owner)
        });
        if owner.is_some_and(|owner| !owner.lives()) {
            let path = entry.path();
            removed += listed(&path)?.iter().filter(|group| group.is_dir()).count();
            undo(&path)?;
        }
    }
    Ok(removed)
}

/// The directories of a journal, in the order in which they were made.
fn listed(journal: &Path) -> Result<Vec<PathBuf>, Error> {
    let text = match fs::read(journal) {
        Ok(text) => text,
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::file("cannot read", journal, error)),
    };
    // A name is any bytes.
    let whole = text.split_inclusive(|&byte| byte == b'\n');
    let whole = whole.filter_map(|line| line.strip_suffix(b"\n"));
    Ok(whole.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

fn undo(journal: &Path) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    for group in listed(journal)?.iter().rev() {
        remove(group, until)?;
    }
    match fs::remove_file(journal) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::file("cannot remove", journal, error))
        }
        _ => Ok(()),
    }
}

/// Removes one control group, as soon as the last thread has left it.
fn remove(group: &Path, until: Instant) -> Result<(), Error> {
    loop {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // It was written down, and the kernel refused to make it.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(Error::file("cannot remove", group, error)),
        }
    }
}

/// Makes the directory of journals, if it is not there.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes the file `name` in the directory of journals: whole, or not at all.
pub fn save(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    make_dir(dir)?;
    let new = dir.join(format!("{name}.new"));
    fs::write(&new, content)?;
    fs::rename(new, dir.join(name))
}

/// Removes that file, and what a process that was killed while it wrote it has left.
pub fn forget(dir: &Path, name: &str) -> io::Result<()> {
    for name in [name.to_string(), format!("{name}.new")] {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Has the names in a directory on disk.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_empty(dir: &Path) -> bool {
        fs::read_dir(dir).expect("a directory").next().is_none()
    }

    #[test]
    fn what_a_killed_writer_has_left_is_forgotten_as_well() {
        let dir = tempfile::tempdir().expect("a directory");
        forget(dir.path(), "a").expect("nothing to forget");
        save(dir.path(), "a", b"1").expect("written");
        fs::write(dir.path().join("a.new"), b"2").expect("written");
        forget(dir.path(), "a").expect("removed");
        assert!(is_empty(dir.path()));
    }

    /// Directories in place of control groups, which differ in nothing that matters here.
    #[test]
    fn what_was_made_is_removed_in_reverse() {
        let (state, groups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut journal = Journal::new(state.path()).expect("a journal");
        let outer = groups.path().join("outer");
        journal.make(&outer).expect("made");
        journal.make(&outer.join("inner")).expect("made");
        assert_eq!(sweep(state.path()).expect("no error"), 0, "its process lives");
        assert!(outer.join("inner").is_dir());
        journal.undo().expect("removed");
        assert!(is_empty(groups.path()) && is_empty(state.path()));
    }

    /// Names of groups are any bytes; a line break would make two lines of one.
    #[test]
    fn a_path_is_any_bytes() {
        let (state, groups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut journal = Journal::new(state.path()).expect("a journal");
        let odd = groups.path().join(OsStr::from_bytes(b"a\xff"));
        journal.make(&odd).expect("made");
        assert!(odd.is_dir());
        journal.make(&groups.path().join("a\nb")).expect_err("two lines");
        assert!(!groups.path().join("a\nb").exists());
        journal.undo().expect("removed");
        assert!(is_empty(groups.path()) && is_empty(state.path()));
    }

    /// The journal of a process that is dead, with a last line that was never finished: what
    /// is listed goes, what only the torn line has stays.
    #[test]
    fn the_dead_are_swept() {
        let (state, groups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| groups.path().join(name);
        for name in ["a", "a/b", "torn"] {
            fs::create_dir(path(name)).unwrap();
        }
        let own = Process::own().unwrap();
        let dead = Process { started: own.started.wrapping_sub(1), ..own };
        let lines = [path("a"), path("a/b"), path("never")].map(|p| p.display().to_string());
        let text = lines.join("\n") + "\n" + &path("torn").display().to_string();
        fs::write(state.path().join(format!("{dead}.0{SUFFIX}")), text).unwrap();
        fs::write(state.path().join("notes.txt"), "not ours").unwrap();
        assert_eq!(sweep(state.path()).expect("removed"), 2);
        assert!(!path("a").exists() && path("torn").is_dir());
        let left: Vec<_> = fs::read_dir(state.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(sweep(&state.path().join("none")).expect("nothing to do"), 0);
    }

    #[test]
    fn two_runs_of_a_process_have_names_of_their_own() {
        let state = tempfile::tempdir().unwrap();
        let journals = [0, 1].map(|_| Journal::new(state.path()).expect("a journal"));
        assert_ne!(journals[0].name(), journals[1].name());
        for journal in &journals {
            journal.undo().expect("nothing to remove");
        }
        assert!(is_empty(state.path()));
    }
}
