//! SIGKILL at every step: what comes next restores all of it.

use std::fs;
use std::path::Path;

use lowtail_testkit::steps::{self, Task};

use super::fake::{Fake, Host};
use super::{POLICY, World, apply, killed, plan, revert, wanted};

/// Another one, of the same places.
const SECOND: &str = r#"
[xen]
ratelimit = "500us"
[[vm]]
name = "web"
weight = 1000
pcpus = "0,2"
preferred_pcpus = "0"
[[vm]]
name = "batch"
cap = "70%"
[[vm]]
weight = "keep"
"#;

/// Not a test: what is killed by one.
#[test]
fn child() {
    let Some(task) = Task::own() else { return };
    let fake = Fake::open(&task.dir);
    match task.what.as_str() {
        "apply" => {
            let policy = fs::read_to_string(task.dir.join("policy")).expect("a file");
            killed::apply(&task, &wanted(&policy).settings);
        }
        "revert" => drop(killed::revert(&task)),
        what => panic!("`{what}`?"),
    }
    drop(fake);
}

/// Lets a process do so until moment `at`; whether it was killed there.
fn killed_at(what: &str, at: usize, dir: &Path) -> bool {
    let killed = steps::killed(steps::command("kill::child", what, at, dir));
    // The fake is another one's now, too.
    lowtail_xen::live::forget();
    killed
}

#[test]
fn after_every_step_of_an_apply() {
    let before = Host::usual();
    let world = World::new(&before);
    fs::write(world.dir().join("policy"), POLICY).expect("a file");
    let changes = plan(world.dir(), POLICY).changes.len();
    let mut at = 0;
    let mut half = 0;
    while killed_at("apply", at, world.dir()) {
        half += usize::from(world.fake.host() != before);
        let reverted = revert(world.dir());
        assert_eq!((reverted.failed, reverted.foreign), (vec![], vec![]));
        assert_eq!(world.fake.host(), before, "killed at moment {at}");
        at += 1;
    }
    // Before and after each step, and once before and after all of them: web has 2 vCPUs.
    assert!(changes >= 10 && at >= 2 * changes + 2, "{changes} changes, {at} moments");
    assert!(half > changes, "{half}");
    revert(world.dir());
    assert_eq!(world.fake.host(), before);
}

#[test]
fn after_every_step_of_another_apply_on_top() {
    let before = Host::usual();
    let world = World::new(&before);
    fs::write(world.dir().join("policy"), SECOND).expect("a file");
    apply(world.dir(), POLICY);
    let mut at = 0;
    while killed_at("apply", at, world.dir()) {
        if at % 2 == 0 {
            // One that goes on from there has the second policy in force, and no more of the first.
            apply(world.dir(), SECOND);
            let whole = world.fake.host();
            revert(world.dir());
            assert_eq!(world.fake.host(), before, "killed at moment {at}");
            apply(world.dir(), SECOND);
            assert_eq!(world.fake.host(), whole, "killed at moment {at}");
        }
        revert(world.dir());
        assert_eq!(world.fake.host(), before, "killed at moment {at}");
        apply(world.dir(), POLICY);
        at += 1;
    }
    assert!(at > 10, "{at} moments");
    revert(world.dir());
    assert_eq!(world.fake.host(), before);
}

#[test]
fn after_every_step_of_a_revert() {
    let before = Host::usual();
    let world = World::new(&before);
    apply(world.dir(), POLICY);
    let mut at = 0;
    while killed_at("revert", at, world.dir()) {
        killed_at("revert", at / 2, world.dir());
        revert(world.dir());
        assert_eq!(world.fake.host(), before, "killed at moment {at}");
        apply(world.dir(), POLICY);
        at += 1;
    }
    assert!(at > 10, "{at} moments");
    assert_eq!(world.fake.host(), before);
}
