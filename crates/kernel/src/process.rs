//! Which process: numbers are used again, a number and when the process began are not.

use std::fmt;
use std::fs;
use std::io;

/// One process of this boot, or one thread, which has a number of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it began, in clock ticks since boot: field 22 of `/proc/PID/stat`, `proc(5)`.
    pub started: u64,
}

impl Process {
    /// This one.
    pub fn own() -> io::Result<Self> {
        let pid = std::process::id() as i32;
        let (_, started) = Self::look(pid)?;
        Ok(Process { pid, started })
    }

    /// Whether it is still there. One that is dead but not yet waited for is not.
    pub fn lives(self) -> bool {
        let Ok((state, started)) = Self::look(self.pid) else { return false };
        started == self.started && !matches!(state, 'Z' | 'X')
    }

    /// State and beginning of process `pid`.
    pub fn look(pid: i32) -> io::Result<(char, u64)> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        let odd = || io::Error::other(format!("/proc/{pid}/stat is not as proc(5) has it"));
        let fields = behind_name(&text).ok_or_else(odd)?;
        let mut fields = fields.split(' ');
        let state = fields.next().and_then(|field| field.chars().next());
        // The state is field 3.
        let started = fields.nth(22 - 4).and_then(|field| field.parse().ok());
        state.zip(started).ok_or_else(odd)
    }

    /// What [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (pid, started) = text.split_once('-')?;
        Some(Process { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }
}

/// What stands behind the name in `/proc/PID/stat`. The name is any bytes, which the thread chooses (`PR_SET_NAME`):
/// parentheses, spaces, and what is no UTF-8. Behind it there are numbers only.
fn behind_name(stat: &[u8]) -> Option<&str> {
    let end = stat.windows(2).rposition(|two| two == b") ")?;
    str::from_utf8(&stat[end + 2..]).ok()
}

/// As part of a file's name: `1234-567890`.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn this_process_lives_and_is_read_back() {
        let own = Process::own().expect("there is a /proc");
        assert!(own.lives());
        assert_eq!(Process::parse(&own.to_string()), Some(own));
        assert!(!Process { started: own.started + 1, ..own }.lives(), "a later one of that number");
    }

    #[test]
    fn a_name_is_any_bytes() {
        for name in [&b"a"[..], b"a) R 1", b"\xff", b"CPU \xe2\x82", b""] {
            let stat = [b"12 (", name, b") S 1 2\n"].concat();
            assert_eq!(behind_name(&stat), Some("S 1 2\n"), "{name:?}");
        }
        assert_eq!(behind_name(b"12 (a"), None);
        assert_eq!(behind_name(b""), None);
    }

    /// The kernel takes that name, and the thread is found nevertheless.
    #[test]
    fn a_thread_with_such_a_name_lives() {
        let test = || {
            let tid = nix::unistd::gettid().as_raw();
            let comm = format!("/proc/self/task/{tid}/comm");
            fs::write(&comm, b"\xff) R \xe2\x82").expect("own thread");
            assert_eq!(fs::read(&comm).expect("own thread"), b"\xff) R \xe2\x82\n");
            let (state, started) = Process::look(tid).expect("it runs");
            assert!(state == 'R' && Process { pid: tid, started }.lives());
        };
        std::thread::spawn(test).join().expect("no panic");
    }

    /// A child that has ended and was not waited for has its number still, and is dead.
    #[test]
    fn a_zombie_is_dead() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).spawn().expect("there is a `cat`");
        let pid = child.id() as i32;
        let (_, started) = Process::look(pid).expect("it runs");
        let process = Process { pid, started };
        assert!(process.lives());
        drop(child.stdin.take());
        while Process::look(pid).expect("it was not waited for").0 != 'Z' {
            std::thread::yield_now();
        }
        assert!(!process.lives());
        child.wait().expect("a child");
        assert!(!process.lives());
    }
}
