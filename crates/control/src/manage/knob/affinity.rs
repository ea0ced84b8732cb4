//! The CPUs on which a thread may run.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use super::cpus;
use super::kind::Kind;
use super::thread::Thread;
use lowtail_kernel::thread::set_cpus;

/// The CPUs of one thread: `sched_setaffinity(2)`, as a list such as `0-3,8`.
///
/// What is read is what the kernel lets it use now, without CPUs that are off and those that its control group does
/// not have. That a thread has never been given CPUs cannot be read; once restored it has been given all that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Affinity {
    /// Whose.
    pub thread: Thread,
}

/// CPUs of a host: those that are on, and those that may be.
struct Host {
    online: BTreeSet<usize>,
    possible: BTreeSet<usize>,
}

impl Host {
    fn read() -> Result<Self, String> {
        let read = |name: &str| {
            let list = std::fs::read_to_string(Path::new("/sys/devices/system/cpu").join(name));
            cpus::parse(&list.map_err(|error| error.to_string())?)
        };
        Ok(Host { online: read("online")?, possible: read("possible")? })
    }

    /// The CPUs of a list that are on. A CPU that no host has is none that is off.
    fn on(&self, list: &str) -> Option<BTreeSet<usize>> {
        let all = cpus::parse(list).ok().filter(|all| all.is_subset(&self.possible))?;
        Some(all.intersection(&self.online).copied().collect())
    }

    fn holds(&self, value: &str, now: &str) -> bool {
        self.on(value).is_some_and(|on| !on.is_empty() && cpus::list(&on) == now)
    }

    fn all_off(&self, value: &str) -> bool {
        self.on(value).is_some_and(|on| on.is_empty())
    }
}

impl Kind for Affinity {
    fn label(&self) -> String {
        format!("CPUs of {}", self.thread)
    }

    fn read(&self) -> io::Result<Option<String>> {
        let Some(tid) = self.thread.there()? else { return Ok(None) };
        let set = Thread::unless_gone(sched_getaffinity(tid).map_err(io::Error::from))?;
        Ok(set.map(|set| {
            let is_in = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
            cpus::list(&(0..CpuSet::count()).filter(is_in).collect())
        }))
    }

    fn write(&self, value: &str) -> io::Result<bool> {
        let Some(tid) = self.thread.there()? else { return Ok(false) };
        let cpus: BTreeSet<usize> = cpus::parse(value).map_err(io::Error::other)?;
        let cpus: Vec<usize> = cpus.into_iter().collect();
        Ok(Thread::unless_gone(set_cpus(tid, &cpus))?.is_some())
    }

    /// What is read leaves out CPUs that are off.
    fn holds(&self, value: &str, now: &str) -> bool {
        value == now || Host::read().is_ok_and(|host| host.holds(value, now))
    }

    /// Where all CPUs of a thread have been switched off, the kernel lets it run on any (`select_fallback_rq` in
    /// `kernel/sched/core.c`).
    fn may_become(&self, value: &str, now: &str) -> bool {
        self.holds(value, now) || Host::read().is_ok_and(|host| host.all_off(value))
    }

    fn normalize(&self, to: &str, _was: &str) -> Result<String, String> {
        let cpus = cpus::parse(to)?;
        if cpus.is_empty() {
            return Err("a thread needs a CPU".into());
        }
        if cpus.last().is_some_and(|&last| last >= CpuSet::count()) {
            return Err(format!("CPUs from {} on cannot be said here", CpuSet::count()));
        }
        Ok(cpus::list(&cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_are_off_do_not_count() {
        let host = Host { online: [0, 2].into(), possible: (0..4).collect() };
        assert!(host.holds("0-1", "0") && host.holds("0-3", "0,2") && host.holds("0,2", "0,2"));
        assert!(!host.holds("0-1", "2") && !host.holds("1", "0") && !host.holds("0,4", "0"));
        // All of them are off: the kernel has given it others.
        assert!(host.all_off("1,3") && !host.all_off("0-1") && !host.all_off("4"));
        assert!(!host.holds("x", "0") && !host.all_off("x"));
    }

    /// What is on here is what is read of a list of it.
    #[test]
    fn this_host() {
        let host = Host::read().expect("a host of Linux");
        let online = cpus::list(&host.online);
        assert!(host.holds(&online, &online) && !host.all_off(&online));
        assert!(host.holds(&cpus::list(&host.possible), &online));
    }
}
