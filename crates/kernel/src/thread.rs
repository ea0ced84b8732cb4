//! What the scheduler knows of a thread: policy, nice value, slice, processors.

use std::io;

use lowtail_host::cgroup::{Policy, Thread};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::syscall;

/// Linux has slices of its own for threads of the fair class from here on (`sched_setattr(2)`).
pub const SLICES_SINCE: (u32, u32) = (6, 12);

/// Gives thread `tid` policy, nice value and slice of `thread`, not its group and processors.
///
/// # Errors
/// What the kernel says. A real-time policy in a group needs a kernel without
/// `CONFIG_RT_GROUP_SCHED`, or time for it in `cpu.rt_runtime_us`.
pub fn set_policy(tid: Pid, thread: &Thread) -> io::Result<()> {
    let (policy, priority) = match thread.policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::Rr(priority) => (libc::SCHED_RR, priority),
    };
    syscall::sched_setattr(
        tid,
        &libc::sched_attr {
            size: 0,
            sched_policy: policy as u32,
            sched_flags: 0,
            sched_nice: thread.nice.into(),
            sched_priority: priority.into(),
            // A slice, for the fair policies since 6.12; zero is the kernel's own.
            sched_runtime: thread.slice.map_or(0, |slice| slice.as_ns()),
            sched_deadline: 0,
            sched_period: 0,
        },
    )
}

/// Lets thread `tid` run on these CPUs only.
///
/// # Errors
/// What the kernel says; if none of them is there, that the argument is invalid.
pub fn set_cpus(tid: Pid, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    Ok(sched_setaffinity(tid, &set)?)
}

/// The CPUs on which this thread may run, lowest first.
///
/// # Errors
/// What the kernel says.
pub fn own_cpus() -> io::Result<Vec<usize>> {
    cpus(Pid::from_raw(0))
}

/// The CPUs on which thread `tid` may run, lowest first.
///
/// # Errors
/// What the kernel says: that it has ended, or has more CPUs than fit.
pub fn cpus(tid: Pid) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(tid)?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// While it lives, this thread runs as soon as it can run: it has the highest real-time
/// priority, if the kernel grants that.
#[derive(Debug)]
pub struct Prompt {
    /// What the thread had; `None` if it was left alone.
    before: Option<libc::sched_attr>,
}

impl Prompt {
    /// Raises the priority of this thread, if the kernel grants that.
    #[allow(clippy::new_without_default, reason = "a guard is never made by the way")]
    pub fn new() -> Self {
        let own = Pid::from_raw(0);
        let first = Thread { policy: Policy::Fifo(99), ..Thread::default() };
        // Without it, samples are taken a little late, with the clock read at the same time. What cannot be put back
        // is not changed.
        let before = syscall::sched_getattr(own).ok();
        Prompt { before: before.filter(|_| set_policy(own, &first).is_ok()) }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = syscall::sched_setattr(Pid::from_raw(0), before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_engine::Duration;

    /// What the thread had is what it has again: policy, nice value, slice.
    #[test]
    fn a_thread_that_was_prompt_is_as_before() {
        let test = || {
            let own = Pid::from_raw(0);
            let slice = Some(Duration::from_ms(7));
            let nicer = Thread { nice: 7, slice, policy: Policy::Batch, ..Thread::default() };
            set_policy(own, &nicer).expect("nicer is allowed to all");
            let shown = || {
                let attr = syscall::sched_getattr(own).expect("own thread");
                (attr.sched_policy, attr.sched_nice, attr.sched_runtime)
            };
            let before = shown();
            assert_eq!((before.0, before.1), (libc::SCHED_BATCH as u32, 7));
            let prompt = Prompt::new();
            let is_first = shown().0 == libc::SCHED_FIFO as u32;
            assert!(is_first || !nix::unistd::geteuid().is_root());
            drop(prompt);
            // Who may not have a real-time policy is left alone.
            assert_eq!(shown(), before);
        };
        std::thread::spawn(test).join().expect("no panic");
    }

    /// On a thread of its own: what it sets stays.
    #[test]
    fn nice_values_and_cpus_are_what_was_asked_for() {
        let test = || {
            let own = Pid::from_raw(0);
            let slice = Some(Duration::from_ms(10));
            let thread = Thread { nice: 5, slice, policy: Policy::Batch, ..Thread::default() };
            set_policy(own, &thread).expect("nicer is allowed to all");
            let tid = nix::unistd::gettid();
            let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
            let stat = stat.expect("own thread");
            let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
            // proc(5): nice is field 19, the policy field 41; the first here is field 3.
            assert_eq!((fields[19 - 3], fields[41 - 3]), ("5", "3"));
            let cpus = own_cpus().expect("own CPUs");
            set_cpus(own, &cpus[..1]).expect("a CPU of ours");
            assert_eq!(own_cpus().expect("own CPUs"), cpus[..1]);
            assert!(set_cpus(own, &[]).is_err());
        };
        std::thread::spawn(test).join().expect("no panic");
    }
}
