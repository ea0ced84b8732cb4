//! The files of a history on the disk.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use lowtail_out::{Access, Output};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fsync, openat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::name;
use super::segment::Closed;

/// A directory with files of ours, and perhaps of others, which are left alone.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    tables: Vec<&'static str>,
    bytes_max: u64,
    /// Holds the lock.
    _lock: OwnedFd,
    /// Of each name the tables that have a file of it, with their sizes.
    files: BTreeMap<String, Vec<(usize, u64)>>,
}

impl Store {
    /// Takes the directory, creates it if need be, and removes what is unfinished.
    pub(super) fn open(dir: &Path, tables: Vec<&'static str>, bytes_max: u64) -> io::Result<Self> {
        // What VMs do is nobody's business but the operator's.
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let lock = open_dir(dir, OFlags::empty())?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let text = "another lowtail keeps its history there; give another directory";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            // A file system without locks.
            Err(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let dir = dir.to_owned();
        let mut store = Store { dir, tables, bytes_max, _lock: lock, files: BTreeMap::new() };
        for table in &store.tables {
            store.make(table)?;
            remove_unfinished(&store.open_table(table)?)?;
        }
        // Whoever cannot be written to is told now.
        if let Some(table) = store.tables.first() {
            drop(Output::create(&store.path(table, &name::of(0)), Access::Private)?);
        }
        store.look()?;
        Ok(store)
    }

    fn path(&self, table: &str, name: &str) -> PathBuf {
        self.dir.join(table).join(name)
    }

    /// The directory of a table, and not what a link there leads to.
    fn open_table(&self, table: &str) -> io::Result<OwnedFd> {
        open_dir(&self.dir.join(table), OFlags::NOFOLLOW)
    }

    /// Makes the directory of a table, if it is not there. Where the whole history is gone, as its disk may be, it stays so.
    fn make(&self, table: &str) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(self.dir.join(table)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// Finds out which files there are.
    fn look(&mut self) -> io::Result<()> {
        self.files.clear();
        for (number, table) in self.tables.iter().enumerate() {
            let dir = match self.open_table(table) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                dir => dir?,
            };
            for name in names(&dir)?.into_iter().filter(|name| name::is_ours(name)) {
                // One that is gone meanwhile is none.
                let Ok(stat) = statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                    self.files.entry(name).or_default().push((number, bytes));
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.files.values().flatten().map(|(_, bytes)| bytes).sum()
    }

    /// Puts the files of a segment in their places: all that have lines, and of a table that has no file yet one without, so that
    /// readers find its columns.
    pub(super) fn write(&mut self, from_unix_ms: u64, closed: &[Closed]) -> io::Result<()> {
        let done = self.try_to_write(from_unix_ms, closed);
        if done.is_err() {
            // Some may be in their places, and some deleted.
            let _ = self.look();
        }
        done
    }

    fn try_to_write(&mut self, from_unix_ms: u64, closed: &[Closed]) -> io::Result<()> {
        let has_files = |table| self.files.values().flatten().any(|(of, _)| *of == table);
        let wanted: Vec<(usize, &Closed)> = closed
            .iter()
            .enumerate()
            .filter(|(table, closed)| closed.rows > 0 || !has_files(*table))
            .collect();
        let bytes = wanted.iter().map(|(_, closed)| closed.bytes.len() as u64).sum();
        if bytes > self.bytes_max {
            return Err(io::Error::other(format!(
                "{bytes} bytes at a time are more than the {} that are to be kept; keep more, or close files more often",
                self.bytes_max
            )));
        }
        self.make_room(bytes)?;
        // A clock that was set back has been here before.
        let name = (from_unix_ms..).map(name::of).find(|name| !self.files.contains_key(name));
        let Some(name) = name else { return Err(io::Error::other("no name is left")) };
        let mut outputs = Vec::new();
        for &(table, closed) in &wanted {
            let table = self.tables[table];
            self.make(table)?;
            let mut output = Output::create(&self.path(table, &name), Access::Private)?;
            output.write_all(&closed.bytes)?;
            outputs.push(output);
        }
        // All of it is written: now they appear.
        for ((table, closed), output) in wanted.into_iter().zip(outputs) {
            output.commit()?;
            let size = closed.bytes.len() as u64;
            self.files.entry(name.clone()).or_default().push((table, size));
            fsync(self.open_table(self.tables[table])?)?;
        }
        Ok(())
    }

    /// Deletes the oldest files until so many bytes more are within the bound.
    fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let mut there = self.bytes();
        while there + bytes > self.bytes_max {
            let Some((name, files)) = self.files.pop_first() else { break };
            for (table, size) in files {
                let removed = self
                    .open_table(self.tables[table])
                    .and_then(|dir| Ok(unlinkat(dir, &name, AtFlags::empty())?));
                match removed {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    // Somebody else has been faster.
                    _ => there -= size,
                }
            }
        }
        Ok(())
    }
}

fn open_dir(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

fn names(dir: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        // Names of ours are ASCII.
        names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(names)
}

/// Removes files that a run which was killed has begun: [`Output`] calls them so.
fn remove_unfinished(dir: &OwnedFd) -> io::Result<()> {
    let unfinished = |name: &String| name.starts_with(".lowtail-") && name.ends_with(".part");
    for name in names(dir)?.iter().filter(|name| unfinished(name)) {
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
