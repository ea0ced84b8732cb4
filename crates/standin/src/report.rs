//! What it prints.

use serde::{Deserialize, Serialize};

/// It has begun: all threads are there, named, in their groups and pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The process.
    pub pid: u32,
    /// The control group of the whole VM, as a directory.
    pub cgroup: Option<String>,
    /// Numbers and names of the threads, vCPUs first.
    pub threads: Vec<(u32, String)>,
}

/// It has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// From its beginning to its end, by `CLOCK_MONOTONIC`.
    pub elapsed_ns: u64,
    /// Its vCPUs.
    pub threads: Vec<ThreadReport>,
}

/// What a vCPU says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadReport {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its processor time, by `CLOCK_THREAD_CPUTIME_ID`.
    pub cpu_ns: u64,
    /// Wake-ups by its timer, or answers to the network.
    pub count: u64,
    /// Instants of its timer that it missed altogether, since it was still late from one before.
    pub missed: u64,
    /// Of all wake-ups: from when the timer was due to when it ran. Half of them were not later.
    pub p50_ns: u64,
    /// 99 in 100 were not later.
    pub p99_ns: u64,
    /// The latest one.
    pub max_ns: u64,
}

impl ThreadReport {
    /// Fills in what follows from the wake-ups. The value at rank ceil(q n), so one that has occurred.
    pub(crate) fn lateness(&mut self, mut late_ns: Vec<u64>) {
        late_ns.sort_unstable();
        let at = |percent: usize| {
            let rank = (late_ns.len() * percent).div_ceil(100).max(1);
            late_ns.get(rank - 1).copied().unwrap_or(0)
        };
        (self.p50_ns, self.p99_ns, self.max_ns) = (at(50), at(99), at(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let of = |late: Vec<u64>| {
            let mut report = ThreadReport::default();
            report.lateness(late);
            (report.p50_ns, report.p99_ns, report.max_ns)
        };
        assert_eq!(of((1..=1000).rev().collect()), (500, 990, 1000));
        assert_eq!(of(vec![7]), (7, 7, 7));
        assert_eq!(of(vec![]), (0, 0, 0));
    }
}
