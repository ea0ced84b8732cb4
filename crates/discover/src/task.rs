//! What `/proc/PID/stat` and `/proc/PID/cgroup` say.

use std::path::PathBuf;

use lowtail_kernel::cgroup::Version;

/// A thread of the kernel's: `PF_KTHREAD` in `include/linux/sched.h`.
const KERNEL_THREAD: u32 = 0x0020_0000;
/// A thread that the kernel has started in a process, such as vhost's, and which of those do input and output for io_uring:
/// `PF_USER_WORKER`, `PF_IO_WORKER`.
const USER_WORKER: u32 = 0x4000;
const IO_WORKER: u32 = 0x10;

/// The fields of `/proc/PID/stat` that matter here, `proc_pid_stat(5)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name for itself.
    pub comm: String,
    /// Dead, and not yet waited for.
    pub dead: bool,
    /// Who has started it.
    pub parent: u32,
    /// A thread of the kernel's. Whoever runs a program can call a thread of it anything.
    pub kernel: bool,
    /// The kernel has started it, in a process, and not for io_uring: since Linux 6.4.
    pub worker: bool,
    /// When it started, in clock ticks since boot.
    pub started_ticks: u64,
}

impl Stat {
    /// `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        // A name may have parentheses and blanks itself: the last one ends it.
        let (head, fields) = text.rsplit_once(") ")?;
        let comm = head.split_once('(')?.1.to_string();
        let fields: Vec<&str> = fields.split_ascii_whitespace().take(20).collect();
        // The first here is field 3, the state.
        let field = |n: usize| fields.get(n - 3).copied();
        let flags: u32 = field(9)?.parse().ok()?;
        Some(Stat {
            comm,
            dead: matches!(field(3)?, "Z" | "X"),
            parent: field(4)?.parse().ok()?,
            kernel: flags & KERNEL_THREAD != 0,
            worker: flags & (USER_WORKER | IO_WORKER) == USER_WORKER,
            started_ticks: field(22)?.parse().ok()?,
        })
    }
}

/// The control group in `/proc/PID/cgroup`, below the mount point of the hierarchy that controls processors; without
/// such a one, of whichever is first. Empty for the topmost; `None` if it is outside of our namespace of groups.
///
/// A line is `ID:CONTROLLERS:PATH`, that of v2 `0::PATH` (`cgroups(7)`).
pub fn group(text: &str, version: Option<Version>) -> Option<PathBuf> {
    let lines = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers) = (parts.next()?, parts.next()?);
        let path = parts.next()?.strip_prefix('/')?;
        let right = match version {
            Some(Version::V1) => controllers.split(',').any(|name| name == "cpu"),
            Some(Version::V2) => id == "0" && controllers.is_empty(),
            None => true,
        };
        right.then_some(path)
    });
    // The kernel marks a group that was removed while its last thread ends.
    let path = lines.map(|path| path.strip_suffix(" (deleted)").unwrap_or(path)).next()?;
    let outside = path.split('/').any(|part| part == "..");
    // However many slashes there are: it is below the mount point.
    (!outside).then(|| PathBuf::from(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_shift_fields() {
        let rest = "S 7 1 1 0 -1 2097216 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        for comm in ["a", "a b", ") R 1 (", "", ") S 1 1 1 0 -1 0 0", "\n"] {
            let stat = Stat::parse(&format!("12 ({comm}) {rest}\n")).expect(comm);
            let Stat { comm: name, dead, parent, kernel, started_ticks, .. } = stat;
            assert_eq!(name, comm);
            assert_eq!((dead, parent, kernel, started_ticks), (false, 7, true, 4711));
        }
        assert_eq!(Stat::parse("12 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn the_hierarchy_that_controls_processors() {
        let text = "9:name=systemd:/user\n4:cpuset:/set\n2:cpu,cpuacct:/a:b/c\n0::/unified\n";
        let at = |version| group(text, version).map(|path| path.display().to_string());
        assert_eq!(at(Some(Version::V1)).as_deref(), Some("a:b/c"));
        assert_eq!(at(Some(Version::V2)).as_deref(), Some("unified"));
        assert_eq!(at(None).as_deref(), Some("user"));
        assert_eq!(group("0::/\n", Some(Version::V2)), Some(PathBuf::new()));
        assert_eq!(group("0:://etc/a\n", Some(Version::V2)), Some("etc/a".into()));
        assert_eq!(group("0::/../x\n", Some(Version::V2)), None);
        assert_eq!(group("0::/a (deleted)\n", Some(Version::V2)), Some("a".into()));
        assert_eq!(group("garbage", Some(Version::V2)), None);
    }
}
