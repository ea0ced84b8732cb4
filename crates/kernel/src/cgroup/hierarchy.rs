//! Which mounted hierarchy controls the processors, and what its files are called.

use std::fs;
use std::path::{Path, PathBuf};

use lowtail_host::cgroup::Limit;

use crate::error::Error;

/// What the kernel calls `cpu.shares` of 1024 in `cpu.weight`.
const WEIGHT_OF_1024: u64 = 100;

/// Which interface: `cgroups(7)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy a controller; threads are moved one by one.
    V1,
    /// One hierarchy for all; threads are moved one by one within *threaded* groups.
    V2,
}

/// A hierarchy that has the controller `cpu`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its interface.
    pub version: Version,
    /// Where it is mounted.
    pub root: PathBuf,
}

impl Hierarchy {
    /// The one of this host.
    ///
    /// # Errors
    /// If there is none.
    pub fn find() -> Result<Self, Error> {
        let mounts = Path::new("/proc/self/mountinfo");
        let text = fs::read(mounts);
        let text = text.map_err(|error| Error::file("cannot read", mounts, error))?;
        // Somebody's mount point may be no UTF-8; that is no reason not to find ours.
        Self::among(&String::from_utf8_lossy(&text), |root| {
            fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
        })
        .ok_or(Error::NoController)
    }

    /// The one among the `mounts` of `proc_pid_mountinfo(5)`; `controllers` reads
    /// `cgroup.controllers` below a root. A controller is in one hierarchy at most.
    pub fn among(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<Self> {
        self::mounts(mounts).find_map(|Mount { kind, place: root, options, .. }| match kind {
            "cgroup" if options.split(',').any(|option| option == "cpu") => {
                Some(Hierarchy { version: Version::V1, root })
            }
            "cgroup2" if controllers(&root).split_whitespace().any(|name| name == "cpu") => {
                Some(Hierarchy { version: Version::V2, root })
            }
            _ => None,
        })
    }

    /// File and value that give a group its part of what its parent gets. Shares are those of
    /// v1; in v2 a weight of 100 is 1024 of them, in whole numbers from 1 to 10000.
    pub fn shares(&self, shares: u64) -> (&'static str, String) {
        match self.version {
            Version::V1 => ("cpu.shares", shares.to_string()),
            Version::V2 => {
                let weight = (shares * WEIGHT_OF_1024 + 512) / 1024;
                ("cpu.weight", weight.clamp(1, 10_000).to_string())
            }
        }
    }

    /// Files and values that limit a group which has no limit, in the order in which the
    /// kernel takes them. The burst comes last: no more than the quota is allowed.
    pub(super) fn limit(&self, limit: Limit) -> Vec<(&'static str, String)> {
        let us = |span: lowtail_engine::Duration| span.as_ns() / 1000;
        let (quota, period) = (us(limit.quota), us(limit.period));
        let mut files = match self.version {
            Version::V1 => vec![
                ("cpu.cfs_period_us", period.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
            ],
            Version::V2 => vec![("cpu.max", format!("{quota} {period}"))],
        };
        // Kernels before 5.14 have no such file, and need none where there is no burst.
        if !limit.burst.is_zero() {
            let file = match self.version {
                Version::V1 => "cpu.cfs_burst_us",
                Version::V2 => "cpu.max.burst",
            };
            files.push((file, us(limit.burst).to_string()));
        }
        files
    }

    /// The file that takes threads.
    pub(super) fn threads(&self) -> &'static str {
        match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        }
    }
}

/// A line of `proc_pid_mountinfo(5)`.
pub(super) struct Mount<'a> {
    /// Which directory of the file system is mounted.
    pub(super) part: &'a str,
    /// Where.
    pub(super) place: PathBuf,
    /// The kind of file system.
    pub(super) kind: &'a str,
    /// Its own options.
    pub(super) options: &'a str,
}

/// All lines that are whole.
pub(super) fn mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(|line| {
        // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (part, place) = (place.next()?, PathBuf::from(unescape(place.next()?)));
        let mut kind = kind.split(' ');
        let (kind, options) = (kind.next()?, kind.nth(1)?);
        Some(Mount { part, place, kind, options })
    })
}

/// Mount points with blanks have them as `\040`.
fn unescape(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) => {
                plain.push(code.into());
                plain += &part[3..];
            }
            None => plain = plain + "\\" + part,
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_engine::Duration;

    const BOTH: &str = "\
24 1 0:22 / / rw - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
31 24 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
32 24 0:28 / /sys/fs/cgroup/cpu\\040one rw shared:5 master:1 - cgroup cgroup rw,cpu,cpuacct
";

    #[test]
    fn the_one_with_the_controller_is_found() {
        let v1 = Hierarchy::among(BOTH, |_| "memory pids".into()).expect("there is one");
        assert_eq!((v1.version, v1.root.to_str()), (Version::V1, Some("/sys/fs/cgroup/cpu one")));
        let v2 = Hierarchy::among(BOTH, |_| "cpuset cpu io\n".into()).expect("there is one");
        assert_eq!((v2.version, v2.root.to_str()), (Version::V2, Some("/sys/fs/cgroup/unified")));
        let without = BOTH.replace("cpu,cpuacct", "cpuacct");
        assert_eq!(Hierarchy::among(&without, |_| "cpuset".into()), None);
    }

    /// As the kernel's `cgroup-v2.rst` and `sched-bwc.rst` have them.
    #[test]
    fn files_and_values() {
        let [v1, v2] =
            [Version::V1, Version::V2].map(|version| Hierarchy { version, root: PathBuf::new() });
        assert_eq!(v1.shares(2048), ("cpu.shares", "2048".into()));
        assert_eq!(v2.shares(2048), ("cpu.weight", "200".into()));
        assert_eq!(v2.shares(2), ("cpu.weight", "1".into()));
        assert_eq!(v2.shares(262_144), ("cpu.weight", "10000".into()));
        let (quota, period) = (Duration::from_us(2_500), Duration::from_ms(10));
        let limit = Limit { quota, period, burst: Duration::from_ms(1) };
        let text = |h: &Hierarchy| {
            h.limit(limit).iter().map(|(f, v)| format!("{f}={v}")).collect::<Vec<_>>().join(";")
        };
        assert_eq!(
            text(&v1),
            "cpu.cfs_period_us=10000;cpu.cfs_quota_us=2500;cpu.cfs_burst_us=1000"
        );
        assert_eq!(text(&v2), "cpu.max=2500 10000;cpu.max.burst=1000");
    }
}
