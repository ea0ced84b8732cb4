//! Where a path leads, without being led astray.
//!
//! lowtail runs as root beside people who may lay links where it writes. The way is walked here, component by
//! component, with each directory held open, so that no process changes it behind the walk:
//!
//! * In a directory that anybody may write to, a link is followed only if it is the caller's or the directory owner's:
//!   what `fs.protected_symlinks` of Linux does in sticky directories (sysctl/fs.rst), also where that is off.
//! * Elsewhere a link of the caller's or of root's is followed. One of another user's is followed only to what belongs
//!   to that one.
//! * What is there already, in a directory that anybody may write to, has to be the caller's or the directory owner's
//!   (`fs.protected_regular`, `fs.protected_fifos`).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat,
    readlinkat, statat,
};
use rustix::io::Errno;

/// Most links on a way (`MAXSYMLINKS` of Linux).
const LINKS_MAX: u32 = 40;

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: OwnedFd,
    pub(crate) name: OsString,
    /// The link is one of `/proc`'s, which only the kernel can follow.
    pub(crate) magic: bool,
    /// Whoever else's links have led here.
    led_by: Option<u32>,
}

/// What is there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum There {
    Nothing,
    /// A regular file, which is replaced.
    File(Stat),
    /// A device or a pipe, which is written into.
    Stream,
}

impl Place {
    /// Walks to where `path` leads.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let mut walk = Walk { left: steps(path), ..Walk::new()? };
        // Nothing but a directory ends so.
        let ends: [&[u8]; 2] = [b"/", b"/."];
        let dir = ends.iter().any(|end| path.as_os_str().as_bytes().ends_with(end));
        let place = walk.walk()?;
        if dir { Err(is_a_directory()) } else { Ok(place) }
    }

    /// What is there, if it may be written to.
    pub(crate) fn look(&self) -> io::Result<There> {
        let dir = fstat(&self.dir)?;
        let follow = if self.magic { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let there = match statat(&self.dir, &self.name, follow) {
            Ok(there) => Some(there),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let owner = there.unwrap_or(dir).st_uid;
        if let Some(uid) = self.led_by.filter(|&uid| uid != owner) {
            return Err(refused(format!(
                "a link of somebody else (user {uid}) leads to what belongs to user {owner}; give the file itself"
            )));
        }
        let Some(there) = there else { return Ok(There::Nothing) };
        if anybody_writes(&dir) && ![own_uid(), dir.st_uid].contains(&there.st_uid) {
            return Err(refused(format!(
                "it belongs to somebody else (user {}) in a directory that anybody can write to; \
                 remove it, or give another file",
                there.st_uid
            )));
        }
        match FileType::from_raw_mode(there.st_mode) {
            FileType::RegularFile => Ok(There::File(there)),
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Fifo => Ok(There::Stream),
            FileType::Directory => Err(is_a_directory()),
            FileType::Socket => Err(refused("is a socket; give a file".to_string())),
            FileType::Symlink => Err(refused("has just become a link; try again".to_string())),
            FileType::Unknown => Err(refused("is of no known type; give a file".to_string())),
        }
    }
}

/// A walk along a path.
struct Walk {
    dir: OwnedFd,
    /// How the user would call `dir`.
    called: PathBuf,
    left: VecDeque<Step>,
    links: u32,
    led_by: Option<u32>,
}

enum Step {
    Root,
    Up,
    To(OsString),
}

fn steps(path: &Path) -> VecDeque<Step> {
    let step = |component| match component {
        Component::RootDir | Component::Prefix(_) => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::To(name.to_owned())),
        Component::CurDir => None,
    };
    path.components().filter_map(step).collect()
}

impl Walk {
    fn new() -> io::Result<Self> {
        let dir = open_dir(CWD, OsStr::new("."), true)?;
        let (called, left) = (PathBuf::new(), VecDeque::new());
        Ok(Walk { dir, called, left, links: 0, led_by: None })
    }

    fn walk(&mut self) -> io::Result<Place> {
        while let Some(step) = self.left.pop_front() {
            let name = match step {
                Step::Root => {
                    self.enter(OsStr::new("/"), true)?;
                    continue;
                }
                Step::Up => {
                    self.enter(OsStr::new(".."), true)?;
                    continue;
                }
                Step::To(name) => name,
            };
            let last = self.left.is_empty();
            let there = match statat(&self.dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(there) => FileType::from_raw_mode(there.st_mode),
                Err(Errno::NOENT) if last => FileType::Unknown,
                Err(Errno::NOENT) => return Err(self.no_directory(&name)),
                Err(error) => return Err(error.into()),
            };
            let link = there == FileType::Symlink;
            let magic = link && fstatfs(&self.dir)?.f_type == PROC_SUPER_MAGIC;
            if link && !magic {
                self.follow(&name)?;
            } else if !last {
                self.enter(&name, magic)?;
            } else if there == FileType::Directory {
                break;
            } else {
                let dir = self.dir.try_clone()?;
                return Ok(Place { dir, name, magic, led_by: self.led_by });
            }
        }
        Err(is_a_directory())
    }

    /// Goes on in the directory `name`.
    fn enter(&mut self, name: &OsStr, follow: bool) -> io::Result<()> {
        let dir = open_dir(self.dir.as_fd(), name, follow);
        self.dir = dir.map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP | Errno::NOENT => self.no_directory(name),
            error => error.into(),
        })?;
        self.called.push(name);
        Ok(())
    }

    /// Goes on where the link `name` leads, if its owner may lay links here.
    fn follow(&mut self, name: &OsStr) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        // Held open, so that its owner and what it says belong together.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = openat(&self.dir, name, flags, Mode::empty())?;
        let (about, dir, own) = (fstat(&link)?, fstat(&self.dir)?, own_uid());
        let uid = about.st_uid;
        if anybody_writes(&dir) {
            if uid != own && uid != dir.st_uid {
                return Err(refused(format!(
                    "{} is a link of somebody else (user {uid}) in a directory that anybody can write to; it is not \
                     followed",
                    crate::path(&self.called.join(name))
                )));
            }
        } else if uid != own && uid != 0 {
            match self.led_by {
                Some(other) if other != uid => {
                    let text = "links of two others lead there; give the file itself";
                    return Err(refused(text.to_string()));
                }
                _ => self.led_by = Some(uid),
            }
        }
        let target = readlinkat(&link, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        if target.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let mut left = steps(target);
        left.append(&mut self.left);
        self.left = left;
        Ok(())
    }

    fn no_directory(&self, name: &OsStr) -> io::Error {
        let dir = crate::path(&self.called.join(name));
        io::Error::new(io::ErrorKind::NotFound, format!("there is no directory {dir}"))
    }
}

fn open_dir(at: impl AsFd, name: &OsStr, follow: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    openat(at, name, flags, Mode::empty())
}

/// Whether anybody may make names in this directory.
fn anybody_writes(dir: &Stat) -> bool {
    dir.st_mode & 0o002 != 0
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_a_directory() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "is a directory; give a file in it")
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}
