//! Who ran while vCPUs waited, counted in the same way in a recording and in a simulation of it, and as `lowtail trace latency` does: when a
//! wait ends on a CPU, that CPU's log is read back over the wait. (The CPU on which the waiter runs at last is the one that kept it waiting.)

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

/// All CPUs together remember so many stretches of running, and each one at most so many; older ones are nobody's that is known.
const STRETCHES_TOTAL: usize = 1 << 20;
const STRETCHES_MAX: usize = 4096;
/// Waits of a thread are due to at most so many others; the rest is nobody's that is known.
const RUNNERS_MAX: usize = 1024;

/// Who has a CPU, as a number: a thread, or one of those below.
type Runner = u32;
const IDLE: Runner = u32::MAX - 1;
const UNKNOWN: Runner = u32::MAX;

/// Who ran on a CPU, and since when.
#[derive(Debug, Default)]
struct Log {
    /// Stretches that have ended, each with its beginning; the next one begins where it ends.
    past: VecDeque<(u64, Runner)>,
    since: u64,
    runner: Option<Runner>,
}

/// Counts whose runs waits were.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    logs: Vec<Log>,
    /// Of each thread: nanoseconds that it waited, by who ran meanwhile.
    waited: Vec<Vec<(Runner, u64)>>,
}

impl Blame {
    fn log(&mut self, cpu: usize) -> &mut Log {
        if cpu >= self.logs.len() {
            self.logs.resize_with(cpu + 1, Log::default);
        }
        &mut self.logs[cpu]
    }

    /// From now on this one has the CPU.
    fn change(&mut self, now: u64, cpu: usize, runner: Runner) {
        let cpus = self.logs.len().max(cpu + 1);
        let log = self.log(cpu);
        if now > log.since {
            while log.past.len() >= STRETCHES_MAX.min(STRETCHES_TOTAL / cpus) {
                log.past.pop_front();
            }
            log.past.push_back((log.since, log.runner.unwrap_or(UNKNOWN)));
        }
        (log.since, log.runner) = (now, Some(runner));
    }

    /// As is seen now, this one, or nobody, has had the CPU since the beginning.
    pub(crate) fn reveal(&mut self, cpu: usize, begin: u64, thread: Option<usize>) {
        let log = self.log(cpu);
        if log.runner.is_none() {
            (log.since, log.runner) = (begin, Some(thread.map_or(IDLE, |thread| thread as Runner)));
        }
    }

    /// `thread` runs on `cpu` from now on, and has waited since then if it has waited.
    pub(crate) fn runs(&mut self, now: u64, cpu: usize, thread: usize, waits_since: Option<u64>) {
        if let Some(since) = waits_since {
            self.attribute(thread, cpu, since, now);
        }
        self.change(now, cpu, thread as Runner);
    }

    /// `thread` leaves `cpu`, where somebody else may run already.
    pub(crate) fn leaves(&mut self, now: u64, cpu: usize, thread: usize) {
        if self.log(cpu).runner == Some(thread as Runner) {
            self.change(now, cpu, IDLE);
        }
    }

    /// What happens on `cpu` from now on is not known.
    pub(crate) fn is_lost(&mut self, now: u64, cpu: usize) {
        self.change(now, cpu, UNKNOWN);
    }

    fn attribute(&mut self, thread: usize, cpu: usize, since: u64, now: u64) {
        if thread >= self.waited.len() {
            self.waited.resize_with(thread + 1, Vec::new);
        }
        // One that has never been seen has no log.
        let (logs, waited) = (&self.logs, &mut self.waited[thread]);
        let Some(log) = logs.get(cpu) else {
            return add(waited, UNKNOWN, now.saturating_sub(since));
        };
        let mut end = now;
        let open = (log.since, log.runner.unwrap_or(UNKNOWN));
        for &(start, runner) in std::iter::once(&open).chain(log.past.iter().rev()) {
            let from = start.clamp(since.min(end), end);
            add(waited, runner, end - from);
            end = from;
            if start <= since {
                break;
            }
        }
        add(waited, UNKNOWN, end.saturating_sub(since));
    }

    /// For how long vCPUs waited, by VM, and by who ran meanwhile. `of` says of a thread what its VM is called, and whether it is a vCPU.
    pub(crate) fn by_vm<'a>(&self, of: impl Fn(usize) -> (Option<&'a str>, bool)) -> Waits {
        let mut waits = Waits::default();
        for (thread, waited) in self.waited.iter().enumerate() {
            let (Some(vm), true) = of(thread) else { continue };
            let row = waits.entry(vm.to_owned()).or_default();
            for &(runner, ns) in waited {
                let runner = match runner {
                    IDLE => Ahead::Nobody,
                    UNKNOWN => Ahead::Unknown,
                    thread => match of(thread as usize).0 {
                        Some(vm) => Ahead::Vm(vm.to_owned()),
                        None => Ahead::Host,
                    },
                };
                *row.entry(runner).or_default() += ns;
            }
        }
        waits
    }
}

fn add(waited: &mut Vec<(Runner, u64)>, runner: Runner, ns: u64) {
    if ns == 0 {
        return;
    }
    // Mostly it is one of the last.
    match waited.iter().rposition(|&(of, _)| of == runner) {
        Some(at) => {
            waited[at].1 = waited[at].1.saturating_add(ns);
            let next = (at + 1).min(waited.len() - 1);
            waited.swap(at, next);
        }
        None if waited.len() < RUNNERS_MAX - 1 || runner == UNKNOWN => waited.push((runner, ns)),
        None => add(waited, UNKNOWN, ns),
    }
}

/// Who ran while a vCPU waited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ahead {
    /// Threads of a VM, by its name, safe to print.
    Vm(String),
    /// Threads of no VM.
    Host,
    /// Nobody: the CPU was on its way out of idle, the waiter out of quota, or in another CPU's queue.
    Nobody,
    /// It is not known.
    Unknown,
}

impl Ahead {
    /// In words, for those who know which VM has waited.
    pub fn words(&self, waiter: &str) -> &str {
        match self {
            Ahead::Vm(name) if name == waiter => "itself",
            Ahead::Vm(name) => name,
            Ahead::Host => "(the host's other threads)",
            Ahead::Nobody => "(nobody)",
            Ahead::Unknown => "(unknown)",
        }
    }
}

/// How long the vCPUs of each VM waited, in nanoseconds, by who ran meanwhile.
pub(crate) type Waits = BTreeMap<String, BTreeMap<Ahead, u64>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_split_by_who_ran() {
        let mut blame = Blame::default();
        blame.reveal(0, 0, Some(7));
        blame.runs(100, 0, 8, None);
        blame.leaves(130, 0, 8);
        // 50 of 7, 30 of 8, 20 of nobody.
        blame.runs(150, 0, 9, Some(50));
        assert_eq!(blame.waited[9], [(IDLE, 20), (8, 30), (7, 50)].map(|(of, ns)| (of, ns)));
        // 9 itself has run, was taken off at the moment at which 8 began, and comes again.
        blame.runs(160, 0, 8, Some(155));
        blame.leaves(160, 0, 9);
        blame.runs(170, 0, 9, Some(160));
        assert_eq!(blame.waited[8], [(9, 5)]);
        assert_eq!(blame.waited[9].iter().find(|of| of.0 == 8), Some(&(8, 40)));
        blame.is_lost(180, 0);
        blame.runs(200, 0, 8, Some(175));
        assert!(blame.waited[8].contains(&(UNKNOWN, 20)) && blame.waited[8].contains(&(9, 10)));
        // Of a CPU of which nothing was seen nothing is known.
        blame.runs(210, 5, 8, Some(205));
        assert!(blame.waited[8].contains(&(UNKNOWN, 25)), "{:?}", blame.waited[8]);
    }

    #[test]
    fn every_wait_is_whole() {
        let mut blame = Blame::default();
        for n in 0..3 * STRETCHES_MAX {
            blame.runs(10 * n as u64, 0, n % (2 * RUNNERS_MAX), None);
        }
        let now = 30 * STRETCHES_MAX as u64;
        blame.runs(now, 0, 5_000, Some(1));
        let waited = &blame.waited[5_000];
        assert!(waited.len() <= RUNNERS_MAX + 1, "{}", waited.len());
        assert_eq!(waited.iter().map(|of| of.1).sum::<u64>(), now - 1);
    }
}
