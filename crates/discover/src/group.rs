//! Control groups of a VM.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::vm::Group;
use super::{Name, VmThread};
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_kernel::file::{self, Unread};

/// Groups below one that are looked at, and threads in them.
const GROUPS_MAX: usize = 4096;
const THREADS_MAX: usize = 65_536;
/// A list of threads: eleven bytes each.
const LIST_MAX: u64 = 11 * THREADS_MAX as u64;

/// The group that holds all threads: the deepest one above them all.
pub(super) fn above_all<'a>(groups: impl IntoIterator<Item = &'a Path>) -> Option<PathBuf> {
    let mut groups = groups.into_iter();
    let first = groups.next()?.to_path_buf();
    let common = groups.fold(first, |above, group| {
        let equal = above.iter().zip(group.iter()).take_while(|(a, b)| a == b);
        equal.map(|(part, _)| part).collect()
    });
    (common != Path::new("")).then_some(common)
}

/// Whether no other threads than `own` are in `group` and below it. Not so if that cannot be read.
pub(super) fn is_own(hierarchy: &Hierarchy, group: &Path, own: &BTreeSet<u32>) -> bool {
    threads(hierarchy, group).is_ok_and(|threads| {
        !threads.is_empty() && threads.iter().all(|(tid, _)| own.contains(tid))
    })
}

/// The threads in `group` and below it, each with its group, in order of number.
pub(super) fn threads(hierarchy: &Hierarchy, group: &Path) -> Result<Vec<(u32, PathBuf)>, Unread> {
    let list = match hierarchy.version {
        Version::V1 => "tasks",
        Version::V2 => "cgroup.threads",
    };
    let mut found = Vec::new();
    let mut open = vec![group.to_path_buf()];
    let mut seen = 0;
    while let Some(group) = open.pop() {
        let dir = hierarchy.root.join(&group);
        match file::text(&dir.join(list), LIST_MAX) {
            Ok(text) => {
                // Those of other namespaces of processes are 0.
                let tids = text.lines().filter_map(|line| line.parse().ok());
                found.extend(tids.map(|tid| (tid, group.clone())));
            }
            // One below may vanish; the first has to be there.
            Err(error) if seen == 0 => return Err(error),
            Err(_) => {}
        }
        seen += 1;
        if seen > GROUPS_MAX || found.len() > THREADS_MAX {
            break;
        }
        let entries = file::entries(&dir).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(dirs.map(|entry| group.join(entry.file_name())));
    }
    found.sort_unstable();
    found.dedup_by_key(|(tid, _)| *tid);
    Ok(found)
}

/// All groups that have a say: those of the threads and the VM, and those above.
pub(super) fn all(cgroup: Option<&Path>, threads: &[VmThread]) -> Vec<Group> {
    let threads = threads.iter().filter_map(|thread| thread.cgroup.as_deref());
    let paths: BTreeSet<&Path> = threads.chain(cgroup).flat_map(Path::ancestors).collect();
    let below = |path: &Path| cgroup.and_then(|own| path.strip_prefix(own).ok().map(label));
    let group = |path: &Path| {
        let own = below(path);
        let shared = own.is_none();
        let label = own.unwrap_or_else(|| path.to_string_lossy().into_owned());
        Group { label: Name::new(label), path: path.to_path_buf(), shared }
    };
    paths.into_iter().filter(|path| *path != Path::new("")).map(group).collect()
}

/// What a group below the VM's is called: the last part of its path; libvirt has one more in between, for v2.
fn label(below: &Path) -> String {
    let plain = below.strip_prefix("libvirt").ok().filter(|rest| *rest != Path::new(""));
    match plain.unwrap_or(below).to_string_lossy() {
        path if path.is_empty() => "all".to_string(),
        path => path.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn above(groups: &[&str]) -> Option<String> {
        let groups = paths(groups);
        let above = above_all(groups.iter().map(PathBuf::as_path));
        above.map(|path| path.display().to_string())
    }

    #[test]
    fn the_group_above_all() {
        assert_eq!(above(&["a/b/c", "a/b/d", "a/b"]).as_deref(), Some("a/b"));
        assert_eq!(above(&["a/bc", "a/bd"]).as_deref(), Some("a"));
        assert_eq!(above(&["a", "b"]), None);
        assert_eq!(above(&["", "a"]), None);
        assert_eq!(above(&[]), None);
    }

    #[test]
    fn labels() {
        let thread = |group: &str| VmThread {
            tid: 1,
            role: Role::Worker,
            comm: Name::new(""),
            cgroup: Some(PathBuf::from(group)),
        };
        let threads = [thread("m.slice/vm/libvirt/vcpu0"), thread("m.slice/vm/libvirt/emulator")];
        let groups = all(Some(Path::new("m.slice/vm")), &threads);
        let told: Vec<(&str, bool)> =
            groups.iter().map(|group| (group.label.as_given(), group.shared)).collect();
        let wanted = [
            ("m.slice", true),
            ("all", false),
            ("libvirt", false),
            ("emulator", false),
            ("vcpu0", false),
        ];
        assert_eq!(told, wanted);
        let shared = all(None, &[thread("user/x")]);
        assert_eq!(shared.last().map(|group| group.label.as_given()), Some("user/x"));
    }
}
