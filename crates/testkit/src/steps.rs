//! A test again, as a process of its own that is killed at some moment: by itself, so that no step is missed.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, raise};

/// What the process is to do; set, it is one: `apply 7 DIR`.
const DO: &str = "LOWTAIL_TEST_DO";

/// What such a process does.
pub struct Task {
    /// In the words of the test.
    pub what: String,
    /// The moment at which it is killed.
    pub at: usize,
    /// Where its ledger is.
    pub dir: PathBuf,
}

impl Task {
    /// That of this process, if it is such a one.
    pub fn own() -> Option<Self> {
        let task = std::env::var_os(DO)?.into_string().expect("text");
        let words: Vec<&str> = task.splitn(3, ' ').collect();
        let [what, at, dir] = words[..] else { panic!("`{task}`?") };
        let at = at.parse().expect("a number");
        Some(Task { what: what.into(), at, dir: dir.into() })
    }

    /// Counts moments, and ends this process at its own.
    pub fn step(&self) -> impl FnMut() {
        let (at, mut seen) = (self.at, 0);
        move || {
            if seen == at {
                raise(Signal::SIGKILL).expect("it works on all");
            }
            seen += 1;
        }
    }
}

/// The process that does so: the test called `name`, which asks for [`Task::own`].
pub fn command(name: &str, what: &str, at: usize, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(DO, format!("{what} {at} {}", dir.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// `outer`, which runs the command that its arguments are, with that of `inner`.
pub fn within(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}

/// Lets it do so; whether it was killed, not through before.
pub fn killed(mut command: Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    let killed = status.signal() == Some(Signal::SIGKILL as i32);
    assert!(killed || status.success(), "{command:?}: {status}");
    killed
}
