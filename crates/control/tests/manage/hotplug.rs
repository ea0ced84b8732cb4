//! CPUs that are switched off and on again.

use std::cell::Cell;
use std::fs;

use lowtail_control::manage::{HostLock, Knob, Now, OnError, Setting, Wanted, status};
use lowtail_control::reconcile::{Options, Reconciler};
use lowtail_kernel::Roots;

use super::world::{World, set};
use super::{apply, guest, host, nobody};

/// Who keeps asks again in the round after a CPU was switched off, not some rounds later.
#[test]
fn it_is_asked_again_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let sys = dir.path().join("sys");
    let cpus = sys.join("devices/system/cpu");
    fs::create_dir_all(&cpus).expect("a directory");
    // A host has the first process at least.
    fs::create_dir_all(dir.path().join("proc/1")).expect("a directory");
    let online = |list: &str| fs::write(cpus.join("online"), list).expect("a file");
    online("0-3\n");
    let mut options = Options::new(&dir.path().join("state"));
    options.roots = Roots { sys, proc: dir.path().join("proc") };
    let mut reconciler = Reconciler::start(options).expect("nobody holds it");
    let asked = Cell::new(0);
    let mut round = || {
        let resolve = &mut |_: &_| {
            asked.set(asked.get() + 1);
            Ok(Wanted::default())
        };
        reconciler.round(resolve).expect("written down");
        asked.replace(0)
    };
    assert_eq!([round(), round(), round()], [1, 0, 0]);
    online("0,2-3\n");
    assert_eq!([round(), round()], [1, 0]);
    online("0-3\n");
    assert_eq!([round(), round()], [1, 0]);
}

/// In a guest of two CPUs: a worker that has CPU 1 is not taken for somebody else's when that is switched off, gets another
/// CPU, and has again all that it had.
#[test]
fn in_a_guest_of_two() {
    let script = "CI=true lowtail hotplug::inside --exact --nocapture";
    let script = format!("LOWTAIL_TEST_TWO_CPUS=1 {script}");
    let Some(said) = guest::within(&script, |guest| guest.set("CPUS", 2)) else { return };
    assert!(said.contains("followed CPU 1"), "{said}");
}

/// Not a test: what runs inside the guest.
#[test]
fn inside() {
    if std::env::var_os("LOWTAIL_TEST_TWO_CPUS").is_none() {
        return;
    }
    let hierarchy = host().expect("a guest has control groups");
    let world = World::new(hierarchy, &[], true);
    let before = world.dump();
    let switch = |on: &str| {
        fs::write("/sys/devices/system/cpu/cpu1/online", on).expect("it can be switched off");
    };
    let has = |n: usize, list: &str| {
        assert_eq!(world.cpus(n).read().expect("read").as_deref(), Some(list), "{n}");
    };
    let on = |n: usize, cpu: &str| -> Setting { set(world.cpus(n), cpu) };
    apply(world.dir(), &[on(0, "0"), on(1, "1"), on(2, "0-1")]);
    switch("0");
    // Nobody else has changed anything.
    let rows = status(world.dir()).expect("a ledger").rows;
    assert!(!rows.iter().any(|row| matches!(row.now, Now::Foreign(_))), "{rows:?}");
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    let plan = hold.plan(&[on(0, "0"), on(1, "0"), on(2, "0")], false).expect("a plan");
    assert_eq!(plan.foreign, []);
    let applied = hold.apply(&plan, OnError::Stop, &mut nobody).expect("written down");
    assert_eq!(applied.failed, []);
    drop(hold);
    (0..3).for_each(|n| has(n, "0"));
    // Restored while it is off, they have it again when it is on.
    super::revert(world.dir());
    switch("1");
    assert_eq!(world.dump(), before);
    (0..3).for_each(|n| has(n, "0-1"));
    assert!(matches!(world.cpus(0), Knob::Affinity(_)));
    println!("followed CPU 1");
}
