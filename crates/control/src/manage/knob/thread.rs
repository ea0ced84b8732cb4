//! Which thread: its number, and when it began.

use std::fmt;
use std::io;
use std::path::Path;

use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use lowtail_kernel::process::Process;

/// One thread of this boot. Numbers are used again, a number and when the thread began are not: the same number twice
/// within one clock tick (10 ms) would take all other numbers in between (`kernel.pid_max`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Thread {
    tid: u32,
    started_ticks: u64,
}

impl Thread {
    /// The thread that has this number now; `None` if nobody has.
    ///
    /// # Errors
    /// If `/proc` does not say.
    pub fn of(tid: u32) -> io::Result<Option<Self>> {
        Ok(look(tid)?.map(|started_ticks| Thread { tid, started_ticks }))
    }

    /// The same, if it is a thread of process `pid`: a number that was read a moment ago may be another's by now.
    ///
    /// # Errors
    /// If `/proc` does not say.
    pub fn of_process(pid: u32, tid: u32) -> io::Result<Option<Self>> {
        // In this order: what is a thread of the process now, and was there before, is the one that was looked at.
        let thread = Self::of(tid)?;
        Ok(thread.filter(|_| Path::new(&format!("/proc/{pid}/task/{tid}")).exists()))
    }

    /// Its number in the host's first namespace.
    pub fn tid(self) -> u32 {
        self.tid
    }

    /// The number for a system call, if the thread is still there. It may end, and its number be given away, between
    /// this and the call: there is no call that takes both.
    pub(super) fn there(self) -> io::Result<Option<Pid>> {
        let same = look(self.tid)? == Some(self.started_ticks);
        Ok(same.then(|| Pid::from_raw(self.tid as i32)))
    }

    /// What a system call about the thread has said; `None` if it is that there is no such thread.
    pub(super) fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.tid)
    }
}

/// When the thread began, if there is one that is not dead.
fn look(tid: u32) -> io::Result<Option<u64>> {
    let number = i32::try_from(tid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match Process::look(number) {
        Ok((state, started)) => Ok((!matches!(state, 'Z' | 'X')).then_some(started)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of that number that began at another time is another.
    #[test]
    fn a_number_that_is_used_again() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let own = Thread::of(tid).expect("there is a /proc").expect("it lives");
        assert_eq!(own.there().expect("a /proc"), Some(Pid::from_raw(tid as i32)));
        let earlier = Thread { started_ticks: own.started_ticks - 1, ..own };
        assert_eq!(earlier.there().expect("a /proc"), None);
        // The highest number that any kernel gives is below 2^22, `proc_sys_kernel(5)`.
        assert_eq!(Thread::of(1 << 23).expect("a /proc"), None);
        assert!(Thread::of(u32::MAX).is_err());
        let pid = std::process::id();
        assert_eq!(Thread::of_process(pid, tid).expect("a /proc"), Some(own));
        assert_eq!(Thread::of_process(1, tid).expect("a /proc"), None, "not one of init's");
    }
}
