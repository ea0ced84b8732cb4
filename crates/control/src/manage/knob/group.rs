//! A file of a control group.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

use super::cpus;
use super::kind::Kind;
use lowtail_kernel::Name;
use lowtail_kernel::cgroup::Hierarchy;

/// Longer values there are not: a list of every second CPU of 8192 has some 20,000 bytes.
const VALUE_MAX: u64 = 64 << 10;

/// Which file: the kernel's `cgroup-v2.rst`, `cgroup-v1/cpusets.rst`, `sched-bwc.rst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Key {
    /// v2: the part of what the parent gets, 1 to 10000.
    #[serde(rename = "cpu.weight")]
    CpuWeight,
    /// v2: run time in each period, `QUOTA PERIOD` or `max PERIOD`, in microseconds.
    #[serde(rename = "cpu.max")]
    CpuMax,
    /// v2: what may be saved up beyond the quota, in microseconds.
    #[serde(rename = "cpu.max.burst")]
    CpuMaxBurst,
    /// v1: the part of what the parent gets, 2 to 262144.
    #[serde(rename = "cpu.shares")]
    CpuShares,
    /// v1: run time in each period, in microseconds; -1 is without limit.
    #[serde(rename = "cpu.cfs_quota_us")]
    CfsQuota,
    /// v1: the period, in microseconds.
    #[serde(rename = "cpu.cfs_period_us")]
    CfsPeriod,
    /// v1: what may be saved up beyond the quota, in microseconds.
    #[serde(rename = "cpu.cfs_burst_us")]
    CfsBurst,
    /// The CPUs, as a list such as `0-3,8`; nothing, in v2, is what the parent has.
    #[serde(rename = "cpuset.cpus")]
    CpusetCpus,
}

impl Key {
    /// The file's name.
    pub fn file(self) -> &'static str {
        match self {
            Key::CpuWeight => "cpu.weight",
            Key::CpuMax => "cpu.max",
            Key::CpuMaxBurst => "cpu.max.burst",
            Key::CpuShares => "cpu.shares",
            Key::CfsQuota => "cpu.cfs_quota_us",
            Key::CfsPeriod => "cpu.cfs_period_us",
            Key::CfsBurst => "cpu.cfs_burst_us",
            Key::CpusetCpus => "cpuset.cpus",
        }
    }
}

/// A file of one control group, of this one and of none that is made in its place later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group {
    mount: PathBuf,
    path: PathBuf,
    /// Which file.
    key: Key,
    /// Of the group's directory. The kernel gives each one a number of 64 bits that no other gets until the next
    /// boot (`__kernfs_new_node` in `fs/kernfs/dir.c`).
    inode: u64,
}

impl Group {
    /// The file `key` of the group that is at `path` below the mount point of its hierarchy; `None` if there is no
    /// such group. With v1 the hierarchy is that of the file's controller.
    ///
    /// # Errors
    /// If the path leads elsewhere, is the topmost group's, or cannot be written as text; what the kernel says.
    pub fn new(hierarchy: &Hierarchy, path: &Path, key: Key) -> io::Result<Option<Self>> {
        let mut group =
            Group { mount: hierarchy.root.clone(), path: path.to_path_buf(), key, inode: 0 };
        group.check().map_err(io::Error::other)?;
        let Some(dir) = there(group.dir())? else { return Ok(None) };
        group.inode = dir.metadata()?.ino();
        Ok(Some(group))
    }

    /// Which file.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Where the group is, below the mount point of its hierarchy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How deep the group is below the mount point.
    pub(in crate::manage) fn depth(&self) -> usize {
        self.path.components().count()
    }

    /// Another file of the same group.
    pub(in crate::manage) fn beside(&self, key: Key) -> Self {
        Group { key, ..self.clone() }
    }

    fn dir(&self) -> PathBuf {
        self.mount.join(&self.path)
    }

    /// Whether it is below the mount point; it may have come from a file.
    fn check(&self) -> Result<(), String> {
        let named = |part| matches!(part, Component::Normal(_));
        let shown = || Name::new(self.path.to_string_lossy());
        if !self.mount.is_absolute() || !self.path.components().all(named) {
            return Err(format!(
                "`{}` is no path below the mount point of control groups",
                shown()
            ));
        }
        if self.path.as_os_str().is_empty() {
            return Err("the topmost control group has no settings of its own".into());
        }
        match (self.path.to_str(), self.mount.to_str()) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err(format!("the control group `{}` has a name that is no UTF-8", shown())),
        }
    }

    /// The open file; `None` if the group is gone.
    fn open(&self, how: OFlag) -> io::Result<Option<File>> {
        self.check().map_err(io::Error::other)?;
        let Some(dir) = there(self.dir())? else { return Ok(None) };
        if dir.metadata()?.ino() != self.inode {
            return Ok(None);
        }
        let how = how | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let opened = openat(&dir, self.key.file(), how, Mode::empty()).map_err(io::Error::from);
        match opened {
            Ok(file) => Ok(Some(File::from(file))),
            Err(error) if is_gone(&error) => Ok(None),
            // All files go when the directory does: where that is still there, the kernel has no such file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => match there(self.dir())? {
                Some(_) => Err(io::Error::other("this kernel has no such file")),
                None => Ok(None),
            },
            Err(error) => Err(error),
        }
    }
}

/// The directory, if there is one.
fn there(dir: PathBuf) -> io::Result<Option<File>> {
    match File::open(dir) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the kernel says to whoever has a file of a group open that is removed (`cgroup_kn_lock_live`).
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

impl Kind for Group {
    fn label(&self) -> String {
        format!("{} of {}", self.key.file(), Name::new(self.path.to_string_lossy()))
    }

    fn read(&self) -> io::Result<Option<String>> {
        let Some(file) = self.open(OFlag::O_RDONLY)? else { return Ok(None) };
        let mut text = String::new();
        match file.take(VALUE_MAX).read_to_string(&mut text) {
            Ok(_) => Ok(Some(text.strip_suffix('\n').unwrap_or(&text).to_string())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, value: &str) -> io::Result<bool> {
        let Some(mut file) = self.open(OFlag::O_WRONLY)? else { return Ok(false) };
        // In one call, which is how the kernel takes a value; with the end of the line, since there may be nothing else.
        let line = format!("{value}\n");
        match file.write(line.as_bytes()) {
            Ok(written) if written == line.len() => Ok(true),
            Ok(_) => Err(io::Error::other("the kernel took a part of the value only")),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn normalize(&self, to: &str, was: &str) -> Result<String, String> {
        // Ranges: cgroup-v2.rst; MIN_SHARES and MAX_SHARES, and the bounds of `tg_set_cfs_bandwidth`, in
        // kernel/sched/: periods of 1 ms to 1 s, quotas of 1 ms at least.
        match self.key {
            Key::CpuWeight => number(to, 1..=10_000),
            Key::CpuShares => number(to, 2..=262_144),
            Key::CfsQuota if to.trim() == "-1" => Ok("-1".into()),
            Key::CfsQuota => number(to, 1_000..=i64::MAX),
            Key::CfsPeriod => number(to, PERIODS_US),
            Key::CfsBurst | Key::CpuMaxBurst => number(to, 0..=i64::MAX),
            Key::CpusetCpus => cpus::parse(to).map(|cpus| cpus::list(&cpus)),
            Key::CpuMax => {
                let mut words = to.split_ascii_whitespace();
                let quota = match words.next() {
                    Some("max") => "max".to_string(),
                    quota => number(quota.unwrap_or_default(), 1_000..=i64::MAX)?,
                };
                let period = words.next().or_else(|| was.split(' ').nth(1)).unwrap_or("100000");
                let period = number(period, PERIODS_US)?;
                match words.next() {
                    Some(_) => Err(format!("`{}` has more than quota and period", Name::new(to))),
                    None => Ok(format!("{quota} {period}")),
                }
            }
        }
    }
}

const PERIODS_US: std::ops::RangeInclusive<i64> = 1_000..=1_000_000;

/// A whole number of that range, without signs and zeros that it does not need.
fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Result<String, String> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    match number {
        Some(number) => Ok(number.to_string()),
        None => {
            let text = Name::new(text.trim());
            Err(format!("`{text}` is no whole number from {least} to {most}"))
        }
    }
}

/// What a group may run, as a value of one of these files says it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::manage) enum Size {
    /// Microseconds; infinite without limit.
    Us(f64),
    /// CPUs of a set. None of them means all that the parent has.
    Cpus(BTreeSet<usize>),
}

impl Size {
    /// Of the value of a quota, period or burst, or of a set of CPUs.
    pub(in crate::manage) fn of(key: Key, value: &str) -> Option<Self> {
        let us = |word: &str| match word {
            "max" | "-1" => Some(f64::INFINITY),
            word => word.parse().ok(),
        };
        match key {
            Key::CpusetCpus => cpus::parse(value).ok().map(Size::Cpus),
            Key::CpuMax => {
                let (quota, period) = value.split_once(' ')?;
                Some(Size::Us(us(quota)? / us(period)?))
            }
            Key::CfsQuota | Key::CfsPeriod | Key::CfsBurst | Key::CpuMaxBurst => {
                us(value).map(Size::Us)
            }
            Key::CpuWeight | Key::CpuShares => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_kernel::cgroup::Version;
    use std::fs;

    fn hierarchy(root: &Path) -> Hierarchy {
        Hierarchy { version: Version::V2, root: root.to_path_buf() }
    }

    #[test]
    fn values_have_one_form() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("a")).expect("a directory");
        let normalize = |key, to: &str, was: &str| {
            let group = Group::new(&hierarchy(dir.path()), Path::new("a"), key);
            group.expect("below").expect("there").normalize(to, was)
        };
        for (key, to, was, wanted) in [
            (Key::CpuMax, "max", "50000 100000", "max 100000"),
            (Key::CpuMax, "20000", "max 50000", "20000 50000"),
            (Key::CpuMax, "20000  10000 ", "max 50000", "20000 10000"),
            (Key::CpuWeight, "0100\n", "1", "100"),
            (Key::CfsQuota, "-1", "1000", "-1"),
            (Key::CpusetCpus, "3,0,1,2", "", "0-3"),
            (Key::CpusetCpus, "", "0", ""),
        ] {
            assert_eq!(normalize(key, to, was).as_deref(), Ok(wanted), "{key} {to}");
        }
        for (key, to) in [
            (Key::CpuWeight, "0"),
            (Key::CpuWeight, "10001"),
            (Key::CpuWeight, "a\x1b"),
            (Key::CpuShares, "1"),
            (Key::CfsQuota, "-2"),
            (Key::CfsQuota, "999"),
            (Key::CfsPeriod, "1000001"),
            (Key::CpuMax, "1000 1000 1"),
            (Key::CpuMax, ""),
            (Key::CpusetCpus, "x"),
        ] {
            let error = normalize(key, to, "max 100000").expect_err(to);
            assert!(!error.contains('\x1b'), "{error}");
        }
    }

    #[test]
    fn a_path_stays_below_the_mount_point() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("mount/a")).expect("a directory");
        let hierarchy = hierarchy(&dir.path().join("mount"));
        let new = |path: &str| Group::new(&hierarchy, Path::new(path), Key::CpuMax);
        for path in ["..", "a/../..", "/etc", "", "."] {
            assert!(new(path).is_err(), "{path}");
        }
        assert!(new("a").expect("below").is_some());
        assert!(new("b").expect("below").is_none());
        // From a file that somebody else has written.
        let text = r#"{"mount":"/tmp","path":"../etc","key":"cpu.max","inode":1}"#;
        let group: Group = serde_json::from_str(text).expect("a group");
        assert!(group.read().is_err() && group.write("1000 1000").is_err());
    }

    /// A directory that was made anew under the same name is another.
    #[test]
    fn a_name_that_is_used_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join("a");
        fs::create_dir(&own).expect("a directory");
        fs::write(own.join("cpu.weight"), "100\n").expect("a file");
        let group = Group::new(&hierarchy(dir.path()), Path::new("a"), Key::CpuWeight);
        let group = group.expect("below").expect("there");
        assert_eq!(group.read().expect("a file").as_deref(), Some("100"));
        assert!(group.beside(Key::CpuMax).read().is_err(), "no such file");
        // Kept, so that its number is not given to the next one.
        fs::rename(&own, dir.path().join("b")).expect("renamed");
        assert_eq!(group.read().expect("gone"), None);
        fs::create_dir(&own).expect("a directory");
        fs::write(own.join("cpu.weight"), "100\n").expect("a file");
        assert_eq!(group.read().expect("gone"), None);
        assert!(!group.write("200").expect("gone"));
        assert_eq!(fs::read_to_string(own.join("cpu.weight")).expect("a file"), "100\n");
    }
}
