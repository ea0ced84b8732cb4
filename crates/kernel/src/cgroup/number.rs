//! Control groups by their number: what the kernel's side knows them by.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use crate::Roots;

/// Groups that are looked at for one answer at most: a host has thousands at most, and nobody waits longer for a name.
const GROUPS_MAX: usize = 65_536;

/// Where the groups of these numbers are, below the mount point of version 2: a number is the inode of a group's directory
/// (`kernfs_node.id`; cgroups(7)). Those that are gone are missing.
pub fn paths_of(roots: &Roots, numbers: &BTreeSet<u64>) -> BTreeMap<u64, PathBuf> {
    let mounts = fs::read(roots.proc.join("self/mountinfo")).unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    let places = mounted(&mounts).map(|root| roots.place(&root));
    // Something else may have been mounted over one.
    let seen = places.filter(|root| root.join("cgroup.controllers").exists()).last();
    seen.map_or_else(BTreeMap::new, |root| below(&root, numbers))
}

/// Where version 2 is mounted; not where a part of it is.
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> {
    let whole = super::hierarchy::mounts(mounts);
    whole.filter(|mount| mount.kind == "cgroup2" && mount.part == "/").map(|mount| mount.place)
}

/// The directories below `root` with these inodes, breadth first: what is asked for is rarely deep.
fn below(root: &Path, numbers: &BTreeSet<u64>) -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    let mut level = vec![root.to_path_buf()];
    let mut looked = 0;
    while !level.is_empty() && found.len() < numbers.len() {
        let mut next = Vec::new();
        for group in level {
            let Ok(children) = fs::read_dir(&group) else { continue };
            for child in children.filter_map(Result::ok) {
                // A directory says of what is in it which kind and number it has. A link is none, and leads nowhere.
                let is_group = child.file_type().is_ok_and(|kind| kind.is_dir());
                if !is_group || looked >= GROUPS_MAX {
                    continue;
                }
                looked += 1;
                if numbers.contains(&child.ino())
                    && let Ok(path) = child.path().strip_prefix(root)
                {
                    found.insert(child.ino(), path.to_path_buf());
                }
                next.push(child.path());
            }
        }
        level = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn groups_are_found_by_the_inodes_of_their_directories() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("system.slice/backup.service/work");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("cgroup.procs"), "1\n").unwrap();
        let number = fs::metadata(&deep).unwrap().ino();
        let file = fs::metadata(deep.join("cgroup.procs")).unwrap().ino();
        let found = below(root.path(), &[number, file].into());
        let path = PathBuf::from("system.slice/backup.service/work");
        assert_eq!(found, [(number, path)].into());
    }

    #[test]
    fn the_mount_point_is_that_of_version_2() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 24 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 none rw\n\
                      32 24 0:27 /a.slice /mnt rw - cgroup2 none rw\n\
                      33 24 0:27 / /mnt/one\\040more rw - cgroup2 none rw\n";
        let all: Vec<PathBuf> = mounted(mounts).collect();
        assert_eq!(all, ["/sys/fs/cgroup/unified", "/mnt/one more"].map(PathBuf::from));
        assert_eq!(mounted("").count(), 0);
    }
}
