//! What the processes do that tests of this room kill, and settings that they read.

use std::fs;
use std::path::Path;
use std::process::Command;

use lowtail_control::manage::{HostLock, Knob, OnError, Setting};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use lowtail_testkit::steps::{self, Task};

use crate::killed;
use crate::world::{World, set};
use crate::{host, nobody};

/// Not a test: what is killed by one. Settings are in its directory.
#[test]
fn child() {
    let Some(task) = Task::own() else { return };
    let dir = &task.dir;
    match task.what.as_str() {
        "apply" => killed::apply(&task, &settings(dir)),
        "revert" => drop(killed::revert(&task)),
        // Until it is killed.
        "hold" => {
            let _hold = HostLock::take(dir).expect("nobody holds it");
            fs::write(dir.join("held"), "").expect("a file");
            loop {
                std::thread::park();
            }
        }
        "full" => crate::full::inside(dir),
        "readonly" => crate::readonly::inside(dir),
        "reconciler" => crate::reconciler::inside(dir),
        // Again and again, until it is killed from outside at any instant.
        "churn" => loop {
            let mut hold = HostLock::take(dir).expect("nobody holds it");
            let plan = hold.plan(&settings(dir), false).expect("a plan");
            hold.apply(&plan, OnError::Stop, &mut nobody).expect("written down");
            hold.revert(false, &mut nobody).expect("written down");
        },
        what => panic!("`{what}`?"),
    }
}

pub(crate) fn settings(dir: &Path) -> Vec<Setting> {
    let text = fs::read(dir.join("settings")).expect("a file");
    let read: Vec<(Knob, String)> = serde_json::from_slice(&text).expect("as written");
    read.into_iter().map(|(knob, to)| set(knob, &to)).collect()
}

/// For a child to read.
pub(crate) fn write(dir: &Path, settings: &[Setting]) {
    let pairs: Vec<(&Knob, &str)> =
        settings.iter().map(|setting| (&setting.knob, setting.to.as_str())).collect();
    fs::write(dir.join("settings"), serde_json::to_vec(&pairs).expect("JSON")).expect("a file");
}

/// Lets one do so in a mount namespace of its own, with a setting for each of these control groups. They are as before
/// then.
pub(crate) fn with_mounts_of_its_own(what: &str, groups: &[&str]) {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, groups, false);
    let before = world.dump();
    let setting = |group| set(world.group(group, world.weight()), "300");
    write(world.dir(), &(1..=groups.len()).map(setting).collect::<Vec<_>>());
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--"]);
    let own = steps::within(unshare, &command(what, 0, world.dir())).output();
    let output = own.expect("there is an `unshare`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(world.dump(), before);
}

/// The process that does so.
pub(crate) fn command(what: &str, at: usize, dir: &Path) -> Command {
    steps::command("child::child", what, at, dir)
}

/// Lets one do so until moment `at`; whether it was killed there, not through before.
pub(crate) fn killed(what: &str, at: usize, dir: &Path) -> bool {
    steps::killed(command(what, at, dir))
}

pub(crate) fn sigkill(pid: u32) {
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).expect("a child of ours");
}
