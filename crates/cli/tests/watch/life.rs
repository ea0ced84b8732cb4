//! Lives of `host apply --watch`: it begins, a VM comes, a VM goes, it is told to end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lowtail_control::manage::status;
use lowtail_control::reconcile::{InForce, in_force};
use lowtail_testkit::traced::{Call, Traced};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::vm::Vm;

/// Something of each kind: a weight, a limit, CPUs, a nice value; with sched_ext a class for each thread.
const POLICY: &str = "
[[vm]]
weight = 300
cap = \"50%\"
worker_weight = 200

[workers]
cpus = \"all-but-first\"
";

/// Two VMs, one of which comes and goes, and where the ledger is.
#[derive(Debug)]
pub(crate) struct World {
    dir: TempDir,
    first: Vm,
    second: Option<Vm>,
    /// Whether the other one comes at all.
    comes: bool,
    rows_each: usize,
}

/// Where in its life it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Begins,
    Comes,
    Goes,
    Ends,
}

/// A change that it makes.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) phase: Phase,
    pub(crate) what: String,
}

impl World {
    /// With that policy, this word on who schedules vCPUs, and perhaps a VM that comes and goes.
    pub(crate) fn new(scheduler: &str, comes: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let policy = format!("scheduler = \"{scheduler}\"\n{POLICY}");
        fs::write(dir.path().join("policy.toml"), policy).expect("a file");
        World { dir, first: Vm::start("first"), second: None, comes, rows_each: 0 }
    }

    /// One life until it is about to make change `at`, where it is stopped, or to its end; what it has changed.
    pub(crate) fn life(&mut self, at: usize) -> (Vec<Change>, Traced) {
        self.second = None;
        let mut traced = Traced::start(&self.command());
        let (mut phase, mut changes) = (Phase::Begins, Vec::new());
        while let Some(call) = traced.next_call() {
            match call {
                Call::Change(what) => {
                    changes.push(Change { phase, what });
                    if changes.len() > at {
                        break;
                    }
                }
                Call::Pause => phase = self.go_on(phase, traced.pid),
            }
        }
        (changes, traced)
    }

    /// One life that nobody looks at.
    pub(crate) fn unseen(&mut self) -> Pid {
        self.second = None;
        Traced::start(&self.command()).let_go()
    }

    fn command(&self) -> String {
        let dir = self.dir.path().display();
        format!(
            "lowtail host apply {dir}/policy.toml --watch --no-look --state {dir}/state --quiet"
        )
    }

    /// What happens next, once it has done all that there was to do.
    fn go_on(&mut self, phase: Phase, pid: Pid) -> Phase {
        let end = || {
            kill(pid, Signal::SIGTERM).expect("it lives");
            Phase::Ends
        };
        // As many for each VM.
        match (phase, self.rows()) {
            (Phase::Begins, 1..) if !self.comes => end(),
            (Phase::Begins, rows @ 1..) => {
                self.rows_each = rows;
                self.second = Some(Vm::start("second"));
                Phase::Comes
            }
            (Phase::Comes, rows) if rows == 2 * self.rows_each => {
                self.second = None;
                Phase::Goes
            }
            (Phase::Goes, rows) if rows == self.rows_each => end(),
            _ => phase,
        }
    }

    /// How many values are written down.
    fn rows(&self) -> usize {
        status(&self.state()).expect("as written").rows.len()
    }

    /// What became of the scheduler.
    pub(crate) fn scheduler(&self) -> Option<InForce> {
        in_force(&self.state()).expect("as written")
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn machines(&self) -> impl Iterator<Item = &Vm> {
        [&self.first].into_iter().chain(&self.second)
    }

    /// What differs from what was there before.
    fn changed(&self) -> Vec<String> {
        self.machines().flat_map(Vm::changed).collect()
    }

    /// All VMs run.
    pub(crate) fn run(&self) {
        for machine in self.machines() {
            let before = machine.ran_ns();
            until("it runs", || machine.ran_ns() > before);
        }
    }

    /// How many threads have the class of the scheduler.
    pub(crate) fn in_class(&self) -> usize {
        self.machines().map(Vm::in_class).sum()
    }

    /// What a killed one has left is restored.
    pub(crate) fn revert(&self) {
        let reverted = self.host(&["revert"]);
        assert!(reverted.status.success(), "{reverted:?}");
    }

    /// `lowtail host WORDS`, on this state.
    fn host(&self, words: &[&str]) -> Output {
        let mut command = Command::new("lowtail");
        command.arg("host").args(words).arg("--state").arg(self.state());
        command.output().expect("it starts")
    }

    /// Nothing is left of it: all is byte for byte as it was, and nothing is written down.
    pub(crate) fn is_as_before(&self) {
        assert_eq!(self.changed(), Vec::<String>::new());
        let left: Vec<_> = fs::read_dir(self.state()).expect("a directory").flatten().collect();
        let mut left: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["host.audit", "host.lock"]);
    }

    /// That is what `status` says, too.
    pub(crate) fn says_so(&self) {
        let status = self.host(&["status", "--no-look"]);
        let said = String::from_utf8_lossy(&status.stdout);
        assert!(status.status.success() && said == "nothing is changed on this host\n", "{said}");
    }
}

/// Nobody's scheduler is loaded.
pub(crate) fn no_scheduler() -> bool {
    let state = Path::new("/sys/kernel/sched_ext/state");
    fs::read_to_string(state).expect("a kernel with sched_ext").trim() == "disabled"
}

/// A unit that may little takes seconds to begin in an emulated guest, and one that fails does so five times.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for that, for some seconds of the guest's.
pub(crate) fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        // The guest's clock jumps over what nobody uses.
        sleep(Duration::from_millis(100));
    }
}
