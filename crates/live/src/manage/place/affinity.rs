//! The CPUs on which a thread may run.

use std::collections::BTreeSet;
use std::io;

use nix::sched::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use super::thread::Thread;
use super::{Kind, cpus};
use crate::thread::set_cpus;

/// The CPUs of one thread: `sched_setaffinity(2)`, as a list such as `0-3,8`.
///
/// What is read is what the kernel lets it use now, without CPUs that are off and those that its control group does
/// not have. That a thread has never been given CPUs cannot be read; once restored it has been given all that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Affinity {
    /// Whose.
    pub thread: Thread,
}

/// The CPUs of a list that are on.
fn on(list: &str) -> Result<BTreeSet<usize>, String> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
    let online = cpus::parse(&online.map_err(|error| error.to_string())?)?;
    Ok(cpus::parse(list)?.intersection(&online).copied().collect())
}

impl Kind for Affinity {
    fn label(&self) -> String {
        format!("CPUs of {}", self.thread)
    }

    fn read(&self) -> io::Result<Option<String>> {
        let Some(tid) = self.thread.there()? else { return Ok(None) };
        let set = Thread::said(sched_getaffinity(tid).map_err(io::Error::from))?;
        Ok(set.map(|set| {
            let is_in = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
            cpus::list(&(0..CpuSet::count()).filter(is_in).collect())
        }))
    }

    fn write(&self, value: &str) -> io::Result<bool> {
        let Some(tid) = self.thread.there()? else { return Ok(false) };
        let cpus: BTreeSet<usize> = cpus::parse(value).map_err(io::Error::other)?;
        let cpus: Vec<usize> = cpus.into_iter().collect();
        Ok(Thread::said(set_cpus(tid, &cpus))?.is_some())
    }

    /// What is read leaves out CPUs that are off.
    fn holds(&self, value: &str, now: &str) -> bool {
        value == now || on(value).is_ok_and(|on| !on.is_empty() && cpus::list(&on) == now)
    }

    /// Where all CPUs of a thread have been switched off, the kernel lets it run on any (`select_fallback_rq` in
    /// `kernel/sched/core.c`).
    fn may_become(&self, value: &str, now: &str) -> bool {
        self.holds(value, now) || on(value).is_ok_and(|on| on.is_empty())
    }

    fn full(&self, to: &str, _was: &str) -> Result<String, String> {
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

    /// CPUs that no host has are off.
    #[test]
    fn cpus_that_are_off_do_not_count() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let thread = Thread::of(tid).expect("a /proc").expect("it lives");
        let place = Affinity { thread };
        assert!(place.holds("0", "0") && place.holds("0,8191", "0"));
        assert!(!place.holds("0,8191", "1") && !place.holds("8191", "0"));
        // All of them are off: the kernel has given it others.
        assert!(place.may_become("8190-8191", "0") && !place.may_become("0", "1"));
        assert!(!place.holds("x", "0") && !place.may_become("x", "0"));
    }
}
