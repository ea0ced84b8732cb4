//! However a run ends, nothing is left of it.

use super::*;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use lowtail_host::Cgroup;
use lowtail_host::cgroup::CgroupConfig;
use lowtail_kernel::Error;
use lowtail_kernel::cgroup::{Hierarchy, Version};
use nix::libc;

/// Where the victim's journal is; set, it is the victim.
const STATE: &str = "LOWTAIL_TEST_VICTIM";

/// Not a test: what is killed by one, a run of ten seconds in a process of its own. It tells
/// by a line when it runs; groups within groups, one of them throttled for most of the time.
#[test]
fn victim() {
    let Some(state) = std::env::var_os(STATE) else { return };
    let cgroups = vec![shares("outer", 1024), limited("outer/tight", Some(0), ms(10), ms(500))];
    let config = config(vec![hogs("tight", 2, 1), hogs("outer", 1, 0)], cgroups);
    let mut options = Options::new(Duration::from_s(10), 1);
    options.state = state.into();
    let told = std::cell::Cell::new(false);
    let result = run(&config, &options, &|done| {
        if !told.get() && done > ms(100) {
            told.set(true);
            // Past the harness, which keeps what tests print.
            use std::io::Write;
            let _ = std::io::stderr().write_all(b"running\n");
        }
    });
    match result.unwrap_err() {
        Error::Interrupted(signal) => lowtail_kernel::signals::die_of(signal),
        error => panic!("{error}"),
    }
}

/// A victim that runs. Nothing of it outlives the test, however that ends.
struct Victim<'a> {
    child: Child,
    state: &'a Path,
}

impl Victim<'_> {
    fn kill(&mut self) {
        self.child.kill().expect("it runs");
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child")
    }

    /// Control groups that it has made and that are there.
    fn groups(&self) -> Vec<String> {
        groups_of(self.child.id())
    }
}

impl Drop for Victim<'_> {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = lowtail_kernel::journal::sweep(self.state);
    }
}

fn start(state: &Path) -> Victim<'_> {
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "ends::victim", "--nocapture"])
        .env(STATE, state)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this test, again");
    let mut victim = Victim { child, state };
    let stderr = victim.child.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "running"), "it did not begin");
    assert_eq!(victim.groups().len(), 1);
    victim
}

fn nothing_is_left(groups: &[String], state: &Path) {
    assert_eq!((groups, journals(state)), (&[][..], 0));
}

fn journals(state: &Path) -> usize {
    std::fs::read_dir(state).expect("a directory").count()
}

/// Nobody can catch SIGKILL: groups and journal stay, and go with the next run.
#[test]
fn what_a_killed_run_has_left_is_removed_by_the_next() {
    let Some(_host) = host() else { return };
    let state = tempfile::tempdir().expect("a directory");
    let mut victim = start(state.path());
    victim.kill();
    victim.wait();
    let left = (victim.groups().len(), journals(state.path()));
    assert_eq!(left, (1, 1), "nobody was there to remove it");
    measure(&config(vec![VmConfig::new("a", Workload::CpuLoop)], Vec::new()), ms(50), state.path());
    nothing_is_left(&victim.groups(), state.path());
    nothing_is_left(&groups(), state.path());
}

/// Killed while it is not yet waited for, and swept at once: its threads are let end first.
#[test]
fn a_sweep_waits_for_threads_that_are_about_to_end() {
    let Some(_host) = host() else { return };
    let state = tempfile::tempdir().expect("a directory");
    let mut victim = start(state.path());
    victim.kill();
    while lowtail_kernel::journal::sweep(state.path()).expect("removed") == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    nothing_is_left(&victim.groups(), state.path());
}

/// Signals that ask for an end get a clean one, and whoever waits sees the signal.
#[test]
fn signals_end_a_run_cleanly() {
    let Some(_host) = host() else { return };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let state = tempfile::tempdir().expect("a directory");
        let mut victim = start(state.path());
        let killed = Command::new("kill")
            .args([format!("-{signal}"), victim.child.id().to_string()])
            .status();
        assert!(killed.expect("there is a `kill`").success());
        assert_eq!(victim.wait().signal(), Some(signal));
        nothing_is_left(&victim.groups(), state.path());
    }
}

/// A panic on the way, here in the progress report.
#[test]
fn a_panic_leaves_nothing() {
    let Some(_host) = host() else { return };
    let state = tempfile::tempdir().expect("a directory");
    let config = config(vec![hogs("a", 2, 0)], vec![limited("a", None, ms(1), ms(100))]);
    let mut options = Options::new(Duration::from_s(10), 1);
    options.state = state.path().to_path_buf();
    let run = std::panic::AssertUnwindSafe(|| {
        run(&config, &options, &|done| assert!(done < ms(100), "on purpose"))
    });
    assert!(std::panic::catch_unwind(run).is_err());
    nothing_is_left(&groups(), state.path());
}

/// What the kernel refuses on the way: the paths of groups in groups get longer than it takes (4096 bytes, `path_resolution(7)`).
#[test]
fn an_error_leaves_nothing() {
    let Some(_host) = host() else { return };
    let state = tempfile::tempdir().expect("a directory");
    let name = "x".repeat(100);
    let cgroups: Vec<_> =
        (0..200_u16).map(|i| CgroupConfig::new(&name, i.checked_sub(1).map(Cgroup))).collect();
    let config = config(vec![hogs("a", 1, 199)], cgroups);
    let mut options = Options::new(ms(50), 1);
    options.state = state.path().to_path_buf();
    let error = run(&config, &options, &|_| {}).expect_err("the kernel refuses a path");
    assert!(error.to_string().contains("name too long"), "{error}");
    nothing_is_left(&groups(), state.path());
}

/// A quota beyond that of the group above: v1 does not take it, and it is refused by name; v2 takes it, and the outer one holds.
#[test]
fn a_quota_above_that_of_the_group_above() {
    let Some(_host) = host() else { return };
    let state = tempfile::tempdir().expect("a directory");
    let cgroups =
        vec![limited("outer", None, ms(10), ms(100)), limited("in", Some(0), ms(20), ms(100))];
    let config = config(vec![hogs("a", 1, 1)], cgroups);
    let mut options = Options::new(ms(50), 1);
    options.state = state.path().to_path_buf();
    let v1 = Hierarchy::find().expect("there is one").version == Version::V1;
    match run(&config, &options, &|_| {}) {
        Ok(_) => assert!(!v1),
        Err(error) => assert!(v1 && error.to_string().contains("`in`"), "{error}"),
    }
    nothing_is_left(&groups(), state.path());
}
