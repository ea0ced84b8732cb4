//! By which rule, in which control group and on which CPUs threads may run.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lowtail_discover::{control_group, hierarchy};
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_kernel::{Roots, file, syscall, thread};
use lowtail_trace::THREADS_MAX;
use lowtail_trace::recording::{GROUPS_MAX, GroupFacts, Policy, ThreadFacts, Writer};
use nix::unistd::Pid;

use super::names::Named;

/// So many threads are read in one round, each in some ten microseconds; the others wait for the next round.
const ROUND_THREADS: usize = 256;
/// No file that is read here is longer: a path, and a line of each hierarchy of v1 around it.
const FILE_MAX: u64 = 64 << 10;

/// What was written into one recording. Each thread is read once, and each control group.
#[derive(Debug)]
pub(super) struct Attributes {
    proc: PathBuf,
    hierarchy: Option<Hierarchy>,
    /// Number by path; `None`: there were too many.
    groups: HashMap<PathBuf, Option<u32>>,
    /// Threads that were read or wait for that, with their process: with another one it is another thread.
    seen: HashMap<u32, u32>,
    /// Threads that came in this round. They may still be on their way into their group.
    new: Vec<u32>,
    waiting: VecDeque<u32>,
}

impl Attributes {
    pub(super) fn new(roots: &Roots) -> Self {
        Attributes {
            proc: roots.proc.clone(),
            hierarchy: hierarchy(roots),
            groups: HashMap::new(),
            seen: HashMap::new(),
            new: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// These threads are there.
    pub(super) fn named(&mut self, threads: &[Named]) {
        for named in threads {
            let room = self.seen.len() < THREADS_MAX;
            let known = self.seen.get(&named.tid);
            if known.is_none() && room || known.is_some_and(|&tgid| tgid != named.tgid) {
                self.seen.insert(named.tid, named.tgid);
                self.new.push(named.tid);
            }
        }
    }

    /// Writes those of VMs' threads, before all others. `members` have not been written yet.
    pub(super) fn members<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        members: &[u32],
        now_ns: u64,
    ) -> io::Result<()> {
        if members.is_empty() {
            return Ok(());
        }
        for &tid in members {
            self.write(out, tid, now_ns)?;
        }
        let members: HashSet<u32> = members.iter().copied().collect();
        let others = |tid: &u32| !members.contains(tid);
        self.new.retain(others);
        self.waiting.retain(others);
        Ok(())
    }

    /// Writes some of those that have waited for a round.
    pub(super) fn round<W: Write>(&mut self, out: &mut Writer<W>, now_ns: u64) -> io::Result<()> {
        for _ in 0..ROUND_THREADS {
            let Some(tid) = self.waiting.pop_front() else { break };
            self.write(out, tid, now_ns)?;
        }
        self.waiting.extend(self.new.drain(..));
        Ok(())
    }

    /// Writes all that have not been written.
    pub(super) fn finish<W: Write>(&mut self, out: &mut Writer<W>, now_ns: u64) -> io::Result<()> {
        self.waiting.extend(self.new.drain(..));
        while let Some(tid) = self.waiting.pop_front() {
            self.write(out, tid, now_ns)?;
        }
        Ok(())
    }

    /// Nothing of a thread that has ended.
    fn write<W: Write>(&mut self, out: &mut Writer<W>, tid: u32, now_ns: u64) -> io::Result<()> {
        let pid = Pid::from_raw(tid as i32);
        // Number 0 would be this thread.
        let Some(attr) = (tid > 0).then(|| syscall::sched_getattr(pid).ok()).flatten() else {
            return Ok(());
        };
        let group = match self.group_of(tid) {
            Some(path) => self.group(out, &path)?,
            None => None,
        };
        let cpus = thread::cpus(pid).ok();
        let cpus = cpus.map(|cpus| cpus.into_iter().map(|cpu| cpu as u16).collect());
        let facts = ThreadFacts {
            at_ns: now_ns,
            group,
            policy: Policy::of(attr.sched_policy),
            nice: attr.sched_nice,
            rt_priority: attr.sched_priority,
            slice_ns: attr.sched_runtime,
            cpus: cpus.map(Arc::new),
        };
        out.attributes(tid, &facts)
    }

    fn group_of(&self, tid: u32) -> Option<PathBuf> {
        let hierarchy = self.hierarchy.as_ref()?;
        let text = file::text(&self.proc.join(format!("{tid}/cgroup")), FILE_MAX).ok()?;
        control_group(&text, Some(hierarchy.version))
    }

    /// The number of a group; it and those above it are written if they have not been.
    fn group<W: Write>(&mut self, out: &mut Writer<W>, path: &Path) -> io::Result<Option<u32>> {
        if let Some(&number) = self.groups.get(path) {
            return Ok(number);
        }
        let Some(hierarchy) = self.hierarchy.clone() else { return Ok(None) };
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        let mut number = None;
        for path in above {
            number = match self.groups.get(path) {
                Some(&number) => number,
                None => {
                    let room = self.groups.len() < GROUPS_MAX;
                    let facts = room.then(|| facts(&hierarchy, path, number));
                    let number = facts.map(|facts| out.group(&facts)).transpose()?;
                    if room {
                        self.groups.insert(path.to_path_buf(), number);
                    }
                    number
                }
            };
        }
        Ok(number)
    }
}

/// What a group is set to, by `cgroup-v2.rst` and `sched-bwc.rst` of the kernel's.
fn facts(hierarchy: &Hierarchy, path: &Path, parent: Option<u32>) -> GroupFacts {
    let dir = hierarchy.root.join(path);
    let text = |name: &str| file::text(&dir.join(name), FILE_MAX).unwrap_or_default();
    let number = |name: &str| text(name).trim().parse::<u64>().ok();
    let ns = |us: u64| us.saturating_mul(1000);
    let (quota, period, burst) = match hierarchy.version {
        Version::V1 => {
            // -1 without a limit, which is no number here.
            let quota = number("cpu.cfs_quota_us");
            (quota, number("cpu.cfs_period_us"), number("cpu.cfs_burst_us"))
        }
        Version::V2 => {
            // `max 100000`, or two numbers.
            let max = text("cpu.max");
            let mut words = max.split_whitespace().map(|word| word.parse().ok());
            (words.next().flatten(), words.next().flatten(), number("cpu.max.burst"))
        }
    };
    let weight = |name| number(name).map(|weight| weight.min(u32::MAX.into()) as u32);
    GroupFacts {
        parent,
        path: path.to_string_lossy().into_owned(),
        weight: weight("cpu.weight").filter(|_| hierarchy.version == Version::V2),
        shares: weight("cpu.shares").filter(|_| hierarchy.version == Version::V1),
        quota_ns: quota.map(ns),
        period_ns: period.map_or(0, ns),
        burst_ns: burst.map_or(0, ns),
        idle: number("cpu.idle") == Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn groups_of_both_versions() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
            fs::write(path, text).expect("ours");
        };
        let of = |version, path: &str| {
            let hierarchy = Hierarchy { version, root: dir.path().to_path_buf() };
            facts(&hierarchy, Path::new(path), Some(3))
        };
        put("a/cpu.weight", "300\n");
        put("a/cpu.max", "25000 50000\n");
        put("a/cpu.max.burst", "1000\n");
        put("a/cpu.idle", "0\n");
        let a = GroupFacts {
            parent: Some(3),
            path: "a".to_owned(),
            weight: Some(300),
            shares: None,
            quota_ns: Some(25_000_000),
            period_ns: 50_000_000,
            burst_ns: 1_000_000,
            idle: false,
        };
        assert_eq!(of(Version::V2, "a"), a);
        put("a/cpu.max", "max 100000\n");
        put("a/cpu.idle", "1\n");
        let free = of(Version::V2, "a");
        assert_eq!((free.quota_ns, free.period_ns, free.idle), (None, 100_000_000, true));
        put("b/cpu.shares", "2048\n");
        put("b/cpu.cfs_quota_us", "-1\n");
        put("b/cpu.cfs_period_us", "100000\n");
        let b = of(Version::V1, "b");
        assert_eq!((b.weight, b.shares, b.quota_ns), (None, Some(2048), None));
        assert_eq!(b.period_ns, 100_000_000);
        // Where the controller is not enabled there are no files.
        assert_eq!(of(Version::V2, "c").weight, None);
    }
}
