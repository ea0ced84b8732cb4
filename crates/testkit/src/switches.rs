//! What the kernel itself counts of a thread: a judge that knows how fast this host is.

use std::fs;

/// How often a thread has left its CPU by itself, that is slept or waited: `voluntary_ctxt_switches` in `/proc/TID/status`,
/// `proc_pid_status(5)`. Each is followed by a wake-up if the thread goes on.
///
/// # Panics
/// If there is no such thread.
pub fn voluntary_switches(tid: u32) -> u64 {
    let path = format!("/proc/{tid}/status");
    let status = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = count.unwrap_or_else(|| panic!("{path} has no voluntary_ctxt_switches:\n{status}"));
    count.trim().parse().expect("a number")
}

/// `read` calls of this thread so far: `syscr` in `/proc/thread-self/io`, `proc_pid_io(5)`. Needs a kernel that accounts I/O of
/// tasks.
///
/// # Panics
/// If the kernel does not tell.
pub fn reads() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").expect("a kernel that accounts I/O");
    let count = io.lines().find_map(|line| line.strip_prefix("syscr:")).expect("reads");
    count.trim().parse().expect("a number")
}
