//! A file that the user names.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, linkat, openat,
    renameat, unlinkat,
};
use rustix::io::Errno;

use crate::place::{Place, There};

/// Who may read what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The owner alone: mode 0600, whatever was there before. For what tells about other users.
    Private,
    /// Whoever could read the file that it replaces, whose mode and owner it gets; a new file follows the umask.
    Usual,
}

/// An output that the user has named: a file that appears whole or not at all, or what is written into as it goes.
///
/// `-` and `/dev/stdout` are standard output, `/dev/fd/N` is an open file. A device or a pipe is written into; a socket
/// and a directory are errors. Everything else is a regular file: it is written without a name in the directory of
/// the target (or, where the file system cannot do that, with a random one that cannot be guessed), and takes its
/// place in [`Output::commit`]. Until then the old file is there. Dropped without it, nothing is left behind.
///
/// Links are followed, so that they stay, unless another user has laid them to lead astray.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<File>,
    /// Where it will be; none for what is written into.
    target: Option<Target>,
}

/// A regular file in the making.
#[derive(Debug)]
struct Target {
    place: Place,
    access: Access,
    /// The name of the unfinished file, if it has one.
    unfinished: Option<String>,
}

/// Whether `path` means standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-") || own_descriptor(path) == Some(1)
}

/// The number of an own descriptor that `path` means.
fn own_descriptor(path: &Path) -> Option<u32> {
    match path.to_str()? {
        "/dev/stdin" => Some(0),
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => {
            let number =
                ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|dir| path.strip_prefix(dir));
            number.filter(|number| number.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
        }
    }
}

impl Output {
    /// Begins to write what is to become `path`. A pipe waits for a reader.
    ///
    /// # Errors
    /// If `path` leads to no place that can be written to, or other users have laid links there.
    pub fn create(path: &Path, access: Access) -> io::Result<Self> {
        if is_standard_output(path) {
            return into(io::stdout().as_fd().try_clone_to_owned()?);
        }
        match own_descriptor(path) {
            Some(2) => return into(io::stderr().as_fd().try_clone_to_owned()?),
            // What a shell does with `> /dev/fd/5`.
            Some(_) => return into(open_stream(CWD, path, OFlags::TRUNC)?),
            None => {}
        }
        let place = Place::find(path)?;
        if let There::Stream = place.look()? {
            let flags = if place.magic { OFlags::empty() } else { OFlags::NOFOLLOW };
            let file = open_stream(&place.dir, Path::new(&place.name), flags)?;
            if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
                return Err(io::Error::other("has just become another file; try again"));
            }
            return into(file);
        }
        if place.magic {
            // An open file of another process, by the name that /proc has for it.
            return into(open_stream(&place.dir, Path::new(&place.name), OFlags::TRUNC)?);
        }
        // A file without a name gets one by way of /proc.
        Self::begin(place, access, Path::new("/proc/self/fd").is_dir())
    }

    /// Begins a file for `place`, if possible a `nameless` one.
    fn begin(place: Place, access: Access, nameless: bool) -> io::Result<Self> {
        let (file, unfinished) = unfinished(&place, nameless)?;
        let target = Some(Target { place, access, unfinished });
        Ok(Output { writer: BufWriter::new(file.into()), target })
    }

    /// Whether `path` could be written to, as far as can be seen without opening it. `Ok(true)` if a file will be
    /// made or replaced there, `Ok(false)` if something is written into as it is.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn check(path: &Path) -> io::Result<bool> {
        if is_standard_output(path) || own_descriptor(path).is_some() {
            return Ok(false);
        }
        let place = Place::find(path)?;
        let stream = matches!(place.look()?, There::Stream) || place.magic;
        if !stream {
            // Whether the directory takes files at all.
            drop(Output::create(path, Access::Private)?);
        }
        Ok(!stream)
    }

    /// Puts the whole file in its place.
    ///
    /// # Errors
    /// If what is buffered cannot be written out, or the file not take its place; then the old one is still there.
    pub fn commit(mut self) -> io::Result<()> {
        self.writer.flush()?;
        let Some(target) = &mut self.target else { return Ok(()) };
        let file = self.writer.get_ref();
        file.sync_all()?;
        let old = match target.place.look()? {
            There::Nothing => None,
            There::File(old) => Some(old),
            There::Stream => {
                let text = "has become a device or a pipe meanwhile; it is left alone";
                return Err(io::Error::other(text));
            }
        };
        dress(file, target.access, old.as_ref())?;
        target.name(file.as_fd(), old.is_some())
    }
}

impl Target {
    /// Gives the finished file its name.
    fn name(&mut self, file: impl AsFd, replaces: bool) -> io::Result<()> {
        let Place { dir, name, .. } = &self.place;
        if self.unfinished.is_none() {
            let own = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
            if !replaces {
                match linkat(CWD, &own, dir, name, AtFlags::SYMLINK_FOLLOW) {
                    Ok(()) => return Ok(()),
                    // Somebody has been faster.
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.unfinished = Some(
                with_random_name(|random| linkat(CWD, &own, dir, random, AtFlags::SYMLINK_FOLLOW))?
                    .1,
            );
        }
        if let Some(unfinished) = &self.unfinished {
            renameat(dir, unfinished, dir, name)?;
            self.unfinished = None;
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            // Nothing to be done if even that fails.
            let _ = unlinkat(&self.place.dir, unfinished, AtFlags::empty());
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// What is written into as it goes.
fn into(file: OwnedFd) -> io::Result<Output> {
    Ok(Output { writer: BufWriter::new(file.into()), target: None })
}

fn open_stream(dir: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(dir, path, flags, Mode::empty())?)
}

/// A file beside the target, and its name if it has one.
fn unfinished(place: &Place, nameless: bool) -> io::Result<(OwnedFd, Option<String>)> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    if nameless && let Ok(file) = openat(&place.dir, ".", flags | OFlags::TMPFILE, mode) {
        return Ok((file, None));
    }
    let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let (file, name) = with_random_name(|name| openat(&place.dir, name, new, mode))?;
    Ok((file, Some(name)))
}

/// Tries names that cannot be guessed until one is free.
fn with_random_name<T>(make: impl Fn(&str) -> Result<T, Errno>) -> io::Result<(T, String)> {
    loop {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!(".lowtail-{:016x}.part", u64::from_ne_bytes(random));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return Ok((made?, name)),
        }
    }
}

/// Gives a finished file its owner and mode.
fn dress(file: &File, access: Access, old: Option<&Stat>) -> io::Result<()> {
    let mut mode = match (access, old) {
        (Access::Private, _) => return Ok(()),
        (Access::Usual, None) => 0o666 & !umask(),
        (Access::Usual, Some(old)) => old.st_mode & 0o777,
    };
    if let Some(old) = old {
        let new = fstat(file)?;
        let (uid, gid) = (old.st_uid, old.st_gid);
        let differs = (new.st_uid, new.st_gid) != (uid, gid);
        // Who may not give files away keeps the group at least.
        if differs
            && fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).is_err()
            && new.st_gid != gid
            && fchown(file, None, Some(Gid::from_raw(gid))).is_err()
        {
            // What was meant for that group is not for another one.
            mode &= !0o070;
        }
    }
    Ok(fchmod(file, Mode::from_raw_mode(mode))?)
}

/// The umask of this process (`Umask` in `/proc/PID/status`, since Linux 4.7); without it a strict one.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `tests/outputs.rs` says of files without a name holds where the file system has none.
    #[test]
    fn without_nameless_files_a_random_name_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = dir.path().join("a");
        let begin = || {
            let place = Place::find(&target).expect("a place");
            Output::begin(place, Access::Private, false).expect("an output")
        };
        let entries = || -> Vec<_> {
            let entries = std::fs::read_dir(dir.path()).expect("a directory");
            entries.map(|entry| entry.expect("an entry").file_name()).collect()
        };
        let (one, mut two) = (begin(), begin());
        let names = entries();
        assert_eq!(names.len(), 2);
        for name in names {
            let name = name.into_string().expect("ASCII");
            assert!(name.starts_with(".lowtail-") && name.ends_with(".part"), "{name}");
        }
        drop(one);
        two.write_all(b"text").expect("written");
        two.commit().expect("in its place");
        begin().commit().expect("replaced");
        assert_eq!(entries(), ["a"]);
    }
}
