//! This process ahead of those who compute.

use nix::unistd::Pid;

use lowtail_kernel::syscall::{sched_getattr, sched_setattr};

/// The most weight that an ordinary thread can have: 87 times that of a usual one (`sched_prio_to_weight` in kernel/sched/core.c).
const NICE: i32 = -20;
/// Threads and programs that are started have the usual nice value (`sched_setattr(2)`).
const RESET_ON_FORK: u64 = libc::SCHED_FLAG_RESET_ON_FORK as u64;

/// Threads of this process come before other ordinary threads as long as this lives; then they are as before.
///
/// Whoever moves VMs into a scheduler waits for a CPU among the very threads that it is to move: forty VMs that start at once, and
/// compute, have it wait for forty turns at each step.
#[derive(Debug)]
pub(super) struct Ahead {
    before: Vec<(Pid, libc::sched_attr)>,
}

impl Ahead {
    /// Threads that are not ordinary ones stay what they are, and all do if the kernel refuses: it is a help, no need.
    pub(super) fn new() -> Self {
        let before = own_threads().into_iter().filter_map(|tid| {
            let before = sched_getattr(tid).ok()?;
            if before.sched_policy != libc::SCHED_OTHER as u32 || before.sched_nice <= NICE {
                return None;
            }
            let flags = before.sched_flags | RESET_ON_FORK;
            let ahead = libc::sched_attr { sched_nice: NICE, sched_flags: flags, ..before };
            sched_setattr(tid, &ahead).ok()?;
            Some((tid, before))
        });
        Ahead { before: before.collect() }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        for (tid, before) in &self.before {
            // Somebody else may have given it another one meanwhile, or it has ended.
            let is_ours = |now: &libc::sched_attr| {
                now.sched_policy == before.sched_policy && now.sched_nice == NICE
            };
            if sched_getattr(*tid).is_ok_and(|now| is_ours(&now)) {
                let _ = sched_setattr(*tid, before);
            }
        }
    }
}

fn own_threads() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_ahead_and_then_as_before() {
        let Some(_turn) = lowtail_testkit::needs::root() else { return };
        let own = nix::unistd::gettid();
        let get = || sched_getattr(own).expect("this thread");
        let before = get();
        let ahead = Ahead::new();
        assert_eq!(get().sched_nice, NICE);
        // Who is started meanwhile is an ordinary one.
        let nice =
            std::thread::spawn(|| sched_getattr(Pid::from_raw(0)).expect("that thread").sched_nice);
        assert_eq!(nice.join().expect("no panic"), 0);
        drop(ahead);
        let after = get();
        assert_eq!((after.sched_nice, after.sched_flags), (before.sched_nice, before.sched_flags));

        // A nice value that somebody has given it meanwhile stays.
        let ahead = Ahead::new();
        sched_setattr(own, &libc::sched_attr { sched_nice: 3, ..get() }).expect("root may");
        drop(ahead);
        assert_eq!(get().sched_nice, 3);
        sched_setattr(own, &before).expect("root may");
    }
}
