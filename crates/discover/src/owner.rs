//! Who owns a process or a control group, and so who has chosen what it says of itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Roots;
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_kernel::file;

/// The host's own user.
pub(super) const ROOT: u32 = 0;
/// Permissions to write for others than the owner.
const OTHERS_WRITE: u32 = 0o022;

/// The user to whom a process belongs, by its `/proc/PID/status`. A program that runs with another user's rights
/// (set-user-ID) belongs to the one who has started it: of the four numbers (`proc_pid_status(5)`: real, effective, saved,
/// file system) the first one counts that is not root's.
pub(super) fn user(status: &str) -> Option<u32> {
    // The kernel escapes line ends in the name, which is the only line above that the process chooses.
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let uids: Option<Vec<u32>> =
        line.split_ascii_whitespace().map(|uid| uid.parse().ok()).collect();
    let uids = uids.filter(|uids| uids.len() == 4)?;
    Some(uids.into_iter().find(|&uid| uid != ROOT).unwrap_or(ROOT))
}

/// Whether a process of root's is the host's: it is in our namespaces of users and of processes. The root of a container is
/// not who decides on this host.
pub(super) fn is_of_host(roots: &Roots, pid: u32) -> bool {
    let same = |namespace: &str| {
        let of = |who: &str| file::link(&roots.proc.join(who).join("ns").join(namespace)).ok();
        match (of(&pid.to_string()), of("self")) {
            (Some(theirs), Some(ours)) => theirs == ours,
            // Without root nobody may look, and nobody may change anything either.
            _ => true,
        }
    };
    same("user") && same("pid")
}

/// Whether nobody but root has made this control group, and put processes into it: it and all above belong to whom the
/// hierarchy belongs to. A subtree that was given to a user (`Delegate=` of systemd) is that user's.
pub(super) fn is_roots(hierarchy: &Hierarchy, group: &Path) -> bool {
    let Ok(top) = fs::metadata(&hierarchy.root) else { return false };
    let members = match hierarchy.version {
        Version::V1 => "tasks",
        Version::V2 => "cgroup.procs",
    };
    let owned = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|of| {
            of.uid() == top.uid() && (of.mode() & OTHERS_WRITE == 0 || of.is_symlink())
        })
    };
    let group = group.strip_prefix("/").unwrap_or(group);
    let dirs = group.ancestors().filter(|path| !path.as_os_str().is_empty());
    let mut dirs = dirs.map(|path| hierarchy.root.join(path));
    let list = hierarchy.root.join(group).join(members);
    dirs.all(|dir| owned(&dir) && dir.is_dir()) && (owned(&list) || !list.exists())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_user_who_has_started_it() {
        let status = |uids: &str| {
            format!("Name:\tx\\nUid:\t0\t0\t0\t0\nUmask:\t0022\nUid:\t{uids}\nGid:\t0\n")
        };
        assert_eq!(user(&status("0\t0\t0\t0")), Some(0));
        assert_eq!(user(&status("1000\t0\t0\t0")), Some(1000));
        assert_eq!(user(&status("0\t0\t1001\t0")), Some(1001));
        for odd in ["", "0", "0 0 0", "0 0 0 x", "0 0 0 0 0", "-1 0 0 0"] {
            assert_eq!(user(&status(odd)), None, "{odd}");
        }
        assert_eq!(user("Name:\tx\n"), None);
    }

    /// One directory on the way that somebody else may write to is enough.
    #[test]
    fn a_group_that_was_given_away_is_not_roots() {
        let dir = tempfile::tempdir().expect("a directory");
        let hierarchy = Hierarchy { version: Version::V2, root: dir.path().to_path_buf() };
        fs::create_dir_all(dir.path().join("a/b/c")).expect("ours");
        assert!(is_roots(&hierarchy, Path::new("a/b/c")));
        assert!(!is_roots(&hierarchy, Path::new("a/none")));
        fs::set_permissions(dir.path().join("a/b"), Permissions::from_mode(0o777)).expect("ours");
        assert!(!is_roots(&hierarchy, Path::new("a/b/c")));
        assert!(is_roots(&hierarchy, Path::new("a")));
        fs::write(dir.path().join("a/cgroup.procs"), "").expect("ours");
        let list = dir.path().join("a/cgroup.procs");
        fs::set_permissions(list, Permissions::from_mode(0o666)).expect("ours");
        assert!(!is_roots(&hierarchy, Path::new("a")));
    }
}
