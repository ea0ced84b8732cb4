//! This test again, as a process that is killed at some moment: by itself, so that no step is missed.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use lowtail_live::manage::{Hold, Moment, OnError, Place, Setting};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;

use crate::world::set;

/// What the process is to do; set, it is one: `apply 7 DIR`, and settings in `DIR/settings`.
const DO: &str = "LOWTAIL_TEST_DO";

/// Not a test: what is killed by one.
#[test]
fn child() {
    let Some(what) = std::env::var_os(DO) else { return };
    let what = what.into_string().expect("text");
    let words: Vec<&str> = what.splitn(3, ' ').collect();
    let [what, at, dir] = words[..] else { panic!("`{what}`?") };
    let (at, dir): (usize, &Path) = (at.parse().expect("a number"), dir.as_ref());
    let mut seen = 0;
    let mut tell = |_: Moment<'_>| {
        if seen == at {
            raise(Signal::SIGKILL).expect("it works on all");
        }
        seen += 1;
    };
    match what {
        "apply" => {
            let mut hold = Hold::take(dir).expect("nobody holds it");
            let plan = hold.plan(&settings(dir), false).expect("a plan");
            let applied = hold.apply(&plan, OnError::Stop, &mut tell).expect("written down");
            assert_eq!(applied.failed, []);
        }
        "revert" => {
            let mut hold = Hold::take(dir).expect("nobody holds it");
            let reverted = hold.revert(false, &mut tell).expect("written down");
            assert_eq!(reverted.failed, []);
        }
        // Until it is killed.
        "hold" => {
            let _hold = Hold::take(dir).expect("nobody holds it");
            fs::write(dir.join("held"), "").expect("a file");
            loop {
                std::thread::park();
            }
        }
        "full" => crate::full::inside(dir),
        "keep" => crate::keep::inside(dir),
        // Again and again, until it is killed from outside at any instant.
        "churn" => loop {
            let mut hold = Hold::take(dir).expect("nobody holds it");
            let plan = hold.plan(&settings(dir), false).expect("a plan");
            hold.apply(&plan, OnError::Stop, &mut |_| {}).expect("written down");
            hold.revert(false, &mut |_| {}).expect("written down");
        },
        _ => panic!("`{what}`?"),
    }
}

pub(crate) fn settings(dir: &Path) -> Vec<Setting> {
    let text = fs::read(dir.join("settings")).expect("a file");
    let read: Vec<(Place, String)> = serde_json::from_slice(&text).expect("as written");
    read.into_iter().map(|(place, to)| set(place, &to)).collect()
}

/// For a child to read.
pub(crate) fn write(dir: &Path, settings: &[Setting]) {
    let pairs: Vec<(&Place, &str)> =
        settings.iter().map(|setting| (&setting.place, setting.to.as_str())).collect();
    fs::write(dir.join("settings"), serde_json::to_vec(&pairs).expect("JSON")).expect("a file");
}

/// The process that does so.
pub(crate) fn command(what: &str, at: usize, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "child::child", "--nocapture", "--test-threads=1"]);
    command.env(DO, format!("{what} {at} {}", dir.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Lets one do so until moment `at`; whether it was killed there, not through before.
pub(crate) fn killed(what: &str, at: usize, dir: &Path) -> bool {
    let status = command(what, at, dir).status().expect("this test, again");
    let killed = status.signal() == Some(Signal::SIGKILL as i32);
    assert!(killed || status.success(), "{what} {at}: {status}");
    killed
}

pub(crate) fn sigkill(pid: u32) {
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).expect("a child of ours");
}
