//! Control groups of ours, all below one.
//!
//! The threads of one process go into different groups, as the vCPUs of a QEMU do. In v1 any
//! thread goes into any group. In v2 that takes *threaded* groups, and the process as a whole in
//! the group above them (`cgroup-v2.rst`, "Threads"): libvirt does the same. One process for
//! each vCPU would do without, but a kill would leave them behind; threads end with their
//! process, whatever ends it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lowtail_host::cgroup::{CgroupStats, Limit};
use nix::unistd::Pid;

use super::hierarchy::{Hierarchy, Version};
use super::stat;
use crate::error::Error;
use crate::journal::{self, Journal};

/// The most that a group can have beside its siblings, 256 times the usual: what else runs on
/// the host has to take the least there is.
const MOST_SHARES: u64 = 262_144;

/// How much of a group's name is shown on the host.
const NAME_MAX: usize = 40;

/// A group of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group(usize);

/// Control groups of ours; they are removed when it is dropped.
#[derive(Debug)]
pub struct Tree {
    hierarchy: Hierarchy,
    journal: Journal,
    groups: Vec<PathBuf>,
    /// Where this process was, if it has been moved.
    home: Option<PathBuf>,
    removed: bool,
}

impl Tree {
    /// The group above all, with as large a part of the host as there is. Removes what killed
    /// processes have left. `state` is the [directory](journal::directory) of journals.
    ///
    /// # Errors
    /// If something cannot be removed or made.
    pub fn new(hierarchy: Hierarchy, state: &Path) -> Result<Self, Error> {
        journal::sweep(state)?;
        let journal = Journal::new(state)?;
        let top = hierarchy.root.join(format!("lowtail-{}", journal.name()));
        let groups = Vec::new();
        let mut tree = Tree { hierarchy, journal, groups, home: None, removed: false };
        if tree.hierarchy.version == Version::V2 {
            tree.control(&tree.hierarchy.root.clone())?;
        }
        tree.make(top)?;
        tree.set_shares(Tree::TOP, MOST_SHARES)?;
        if tree.hierarchy.version == Version::V2 {
            tree.move_in()?;
        }
        Ok(tree)
    }

    /// The group above all others.
    pub const TOP: Group = Group(0);

    /// Where it is.
    pub fn path(&self, group: Group) -> &Path {
        &self.groups[group.0]
    }

    /// Which hierarchy it is in.
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// A new group below `parent`. Of its name the last part is shown on the host, as far as that
    /// is plain letters.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn add(&mut self, parent: Group, name: &str) -> Result<Group, Error> {
        let parent = self.path(parent).to_path_buf();
        let last = name.rsplit('/').next().unwrap_or_default();
        let plain = last.chars().take(NAME_MAX);
        let plain = plain.map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' });
        // Not two of one name, and none that is a file of the kernel's.
        let name = format!("{}-{}", self.groups.len(), plain.collect::<String>());
        let group = self.make(parent.join(name))?;
        if self.hierarchy.version == Version::V2 {
            // The first one makes a threaded domain of the group above all.
            self.write(group, "cgroup.type", "threaded")?;
            self.control(&parent)?;
        }
        Ok(group)
    }

    /// Gives a group its part of what its parent gets; see
    /// [`CgroupConfig::shares`](lowtail_host::cgroup::CgroupConfig::shares).
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn set_shares(&self, group: Group, shares: u64) -> Result<(), Error> {
        let (file, value) = self.hierarchy.shares(shares);
        self.write(group, file, &value)
    }

    /// Limits a group that has no limit.
    ///
    /// # Errors
    /// If the kernel refuses it: v1 does when more is asked for than a group above has.
    pub fn set_limit(&self, group: Group, limit: Limit) -> Result<(), Error> {
        let files = self.hierarchy.limit(limit);
        files.iter().try_for_each(|(file, value)| self.write(group, file, value))
    }

    /// Moves the thread `tid` of this process into a group.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn place(&self, group: Group, tid: Pid) -> Result<(), Error> {
        self.write(group, self.hierarchy.threads(), &tid.to_string())
    }

    /// What has happened to a group with a limit, since it was made.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn stats(&self, group: Group) -> Result<CgroupStats, Error> {
        let path = self.path(group).join("cpu.stat");
        let text = fs::read_to_string(&path);
        Ok(stat::parse(&text.map_err(|error| Error::file("cannot read", &path, error))?).into())
    }

    /// Removes all groups. The threads in them must have ended.
    ///
    /// # Errors
    /// If one cannot be removed; the next run will try again.
    pub fn remove(mut self) -> Result<(), Error> {
        self.clear()
    }

    fn clear(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.removed, true) {
            return Ok(());
        }
        if let Some(home) = self.home.take() {
            let file = home.join("cgroup.procs");
            let moved = fs::write(&file, std::process::id().to_string());
            moved.map_err(|error| Error::file("cannot go back to", &home, error))?;
        }
        self.journal.undo()
    }

    fn make(&mut self, path: PathBuf) -> Result<Group, Error> {
        self.journal.make(&path)?;
        self.groups.push(path);
        Ok(Group(self.groups.len() - 1))
    }

    fn write(&self, group: Group, file: &str, value: &str) -> Result<(), Error> {
        let path = self.path(group).join(file);
        // Opened as it is: a file that is not there is an old kernel, not one to be made.
        let opened = fs::OpenOptions::new().write(true).open(&path);
        let written =
            opened.and_then(|mut file| std::io::Write::write_all(&mut file, value.as_bytes()));
        written.map_err(|error| {
            Error::file("the kernel does not take what was written to", &path, error)
        })
    }

    /// v2: has the groups directly below `dir` controlled.
    fn control(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join("cgroup.subtree_control");
        let has = fs::read_to_string(&path);
        let has = has.map_err(|error| Error::file("cannot read", &path, error))?;
        if has.split_whitespace().any(|name| name == "cpu") {
            return Ok(());
        }
        fs::write(&path, "+cpu").map_err(|error| {
            Error::file("the kernel does not give the controller cpu to", dir, error)
        })
    }

    /// v2: moves this process into the group above all, where its threads can go further.
    fn move_in(&mut self) -> Result<(), Error> {
        let own = Path::new("/proc/self/cgroup");
        let text = fs::read(own);
        let text = text.map_err(|error| Error::file("cannot read", own, error))?;
        let mut lines = text.split(|&byte| byte == b'\n');
        let path = lines.find_map(|line| line.strip_prefix(b"0::/")).unwrap_or_default();
        let home = self.hierarchy.root.join(OsStr::from_bytes(path));
        self.write(Tree::TOP, "cgroup.procs", &std::process::id().to_string())?;
        self.home = Some(home);
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Where nobody can be told any more; the journal stays for the next run.
        let _ = self.clear();
    }
}
