//! A process that is stopped before each call that changes something, so that it can be killed between any two of them.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// `PTRACE_SYSCALL_INFO_ENTRY` of ptrace(2).
const ENTRY: u8 = 1;

/// Commands of bpf(2) that put something into the kernel: `enum bpf_cmd` in `include/uapi/linux/bpf.h`.
const BPF: [(u64, &str); 5] = [
    (0, "map create"),
    (2, "map update"),
    (5, "program load"),
    (18, "types load"),
    (28, "link create"),
];

/// What it is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// It sleeps.
    Pause,
    /// It changes something: what, for people.
    Change(String),
}

/// A traced process; it does not outlive the test.
#[derive(Debug)]
pub struct Traced {
    /// Its number.
    pub pid: Pid,
    /// How it has ended.
    pub ended: Option<WaitStatus>,
}

impl Traced {
    /// Starts a command of the shell, and stops it at its first instruction. The thread that does so is the only one that can go on with it.
    ///
    /// # Panics
    /// If it cannot be started or traced.
    #[expect(clippy::zombie_processes, reason = "who traces it waits for it by its number")]
    pub fn start(command: &str) -> Self {
        // It waits until somebody looks on.
        let line = format!("read -r go; exec {command}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut shell = shell.spawn().expect("a shell");
        let pid = Pid::from_raw(shell.id() as i32);
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(pid, options).expect("a child of ours");
        shell.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
        let stopped = waitpid(pid, Some(WaitPidFlag::__WALL)).expect("a child of ours");
        assert!(matches!(stopped, WaitStatus::PtraceEvent(..)), "{stopped:?}");
        Traced { pid, ended: None }
    }

    /// Lets it go on until it is about to pause or to change something. `None`: it has ended.
    ///
    /// # Panics
    /// If it is not traced any more.
    pub fn next_call(&mut self) -> Option<Call> {
        let mut signal = None;
        loop {
            ptrace::syscall(self.pid, signal.take()).expect("it is stopped");
            match waitpid(self.pid, Some(WaitPidFlag::__WALL)).expect("a child of ours") {
                WaitStatus::PtraceSyscall(_) => {
                    let info = ptrace::syscall_info(self.pid).expect("it is stopped");
                    if info.op == ENTRY
                        && let Some(call) = self.call()
                    {
                        return Some(call);
                    }
                }
                WaitStatus::Stopped(_, which) => signal = Some(which),
                ended @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {
                    self.ended = Some(ended);
                    return None;
                }
                _ => {}
            }
        }
    }

    fn call(&self) -> Option<Call> {
        let regs = ptrace::getregs(self.pid).expect("it is stopped");
        let file = || {
            let path = fs::read_link(format!("/proc/{}/fd/{}", self.pid, regs.rdi));
            let path = path.unwrap_or_default();
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let what = match regs.orig_rax as libc::c_long {
            libc::SYS_clock_nanosleep => return Some(Call::Pause),
            // What it says is no change.
            libc::SYS_write if regs.rdi > 2 => format!("write {}", file()),
            libc::SYS_fsync | libc::SYS_fdatasync => format!("sync {}", file()),
            libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => "rename".to_string(),
            libc::SYS_unlink | libc::SYS_unlinkat => "unlink".to_string(),
            libc::SYS_sched_setaffinity => format!("CPUs of {}", regs.rdi),
            libc::SYS_sched_setattr => format!("scheduling of {}", regs.rdi),
            libc::SYS_bpf => {
                format!("bpf {}", BPF.iter().find(|(number, _)| *number == regs.rdi)?.1)
            }
            libc::SYS_close if file() == "anon_inode:bpf_link" => "close the link".to_string(),
            _ => return None,
        };
        Some(Call::Change(what))
    }

    /// Lets it run, with nobody looking on.
    ///
    /// # Panics
    /// If it is not traced any more.
    pub fn let_go(self) -> Pid {
        ptrace::detach(self.pid, None).expect("it is stopped");
        self.pid
    }
}

/// Kills it, and waits until it is gone.
///
/// # Panics
/// If it is no child of ours.
pub fn sigkill(pid: Pid) {
    kill(pid, Signal::SIGKILL).expect("a child of ours");
    while !matches!(
        waitpid(pid, Some(WaitPidFlag::__WALL)).expect("a child of ours"),
        WaitStatus::Signaled(_, Signal::SIGKILL, _)
    ) {}
}
