//! What was done with which thread, and when: by this the schedule is judged.

use std::collections::BTreeMap;

use lowtail_kernel::clock::Instant;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// A set of CPUs, a bit each.
pub(crate) type Mask = u64;

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
    /// From when on small-first has it, and until when.
    pub(crate) since_ns: Option<u64>,
    pub(crate) until_ns: Option<u64>,
}

impl Thread {
    /// Whether small-first has it all the time from `from_ns` to `to_ns`.
    pub(crate) fn is_ours(&self, from_ns: u64, to_ns: u64) -> bool {
        self.since_ns.is_some_and(|since| since <= from_ns)
            && self.until_ns.is_none_or(|until| to_ns <= until)
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
}
