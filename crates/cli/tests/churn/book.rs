//! What was done with which thread, and when: by this the schedule is judged.

use std::collections::BTreeMap;

use lowtail_kernel::clock::Instant;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// A set of CPUs, a bit each.
pub(crate) type Mask = u64;

/// A thread has the class at first, and then the scheduler is told whose it is: in the same round of `apply`.
const SETTLES_NS: u64 = 300_000_000;

/// The time of recordings.
pub(crate) fn now_ns() -> u64 {
    Instant::now().as_ns()
}

/// A thread of a VM.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    /// Its VM.
    pub(crate) vm: usize,
    /// Where it may run, from when on.
    pub(crate) masks: Vec<(u64, Mask)>,
    /// Looks at which small-first had it, from the first to the last of those in a row.
    pub(crate) ours: Vec<(u64, u64)>,
    /// It ends, or soon will.
    pub(crate) is_gone: bool,
}

impl Thread {
    /// A look sees that small-first has it; the look before began at `before_ns`.
    pub(crate) fn seen(&mut self, before_ns: u64, now_ns: u64) {
        match self.ours.last_mut() {
            Some((_, last)) if *last >= before_ns => *last = now_ns,
            _ => self.ours.push((now_ns + SETTLES_NS, now_ns)),
        }
    }

    /// Whether small-first has it all the time from `from_ns` to `to_ns`.
    pub(crate) fn is_ours(&self, from_ns: u64, to_ns: u64) -> bool {
        self.ours.iter().any(|&(first, last)| first <= from_ns && to_ns <= last)
    }

    /// Whether it may run on a CPU all the time from `from_ns` to `to_ns`.
    pub(crate) fn may_run(&self, cpu: usize, from_ns: u64, to_ns: u64) -> bool {
        let until = |i: usize| self.masks.get(i + 1).map_or(u64::MAX, |next| next.0);
        let in_force = |i: &usize| self.masks[*i].0 <= to_ns && until(*i) > from_ns;
        (0..self.masks.len()).filter(in_force).all(|i| self.masks[i].1 >> cpu & 1 == 1)
    }
}

/// A VM.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub(crate) name: String,
    /// Its limit, in CPUs.
    pub(crate) cap: Option<f64>,
    /// Its vCPUs compute all the time.
    pub(crate) computes: bool,
    /// vCPUs.
    pub(crate) vcpus: usize,
    pub(crate) pid: u32,
    /// What CPU time it has had by the kernel's account, each with its moment: of those with a limit.
    pub(crate) cpu_ns: Vec<Reading>,
}

/// A reading of a VM's CPU time, somewhere between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) before_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) after_ns: u64,
}

impl Reading {
    /// Of a process that lives.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let clock: ClockId = clock_getcpuclockid(Pid::from_raw(pid as i32)).ok()?;
        let before_ns = now_ns();
        let cpu = clock_gettime(clock).ok()?;
        let cpu_ns = cpu.tv_sec() as u64 * 1_000_000_000 + cpu.tv_nsec() as u64;
        Some(Reading { before_ns, cpu_ns, after_ns: now_ns() })
    }
}

/// All that were there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    pub(crate) vms: Vec<Vm>,
    pub(crate) threads: BTreeMap<u32, Thread>,
    /// When the last look began.
    pub(crate) looked_ns: u64,
}
