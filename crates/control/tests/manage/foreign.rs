//! What others do meanwhile: change values, end VMs, begin others under the same name.

use std::fs;

use lowtail_control::manage::{Error, HostLock, Now, OnError, plan, status};

use super::world::{World, set};
use super::{apply, host, nobody, revert};

#[test]
fn what_somebody_else_has_changed_is_told_and_left_alone() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b", "c"], false);
    let weight = world.weight();
    let groups = || [1, 2, 3].map(|group| world.group(group, weight));
    let settings = groups().map(|knob| set(knob, "300"));
    let was = world.get(1, weight);
    apply(world.dir(), &settings);
    world.put(2, weight, "555");
    // Back to what it was is somebody's wish as well.
    world.put(3, weight, &was);
    let plan = plan(world.dir(), &settings, false).expect("a plan");
    assert!(plan.changes.is_empty() && plan.right == settings[..1], "{plan:?}");
    let told: Vec<_> =
        plan.foreign.iter().map(|f| (f.was.as_str(), f.ours.as_str(), &*f.now)).collect();
    assert_eq!(told, [(&*was, "300", "555"), (&*was, "300", &*was)]);
    let now: Vec<Now> =
        status(world.dir()).expect("a ledger").rows.into_iter().map(|row| row.now).collect();
    assert_eq!(now, [Now::InForce, Now::Foreign("555".into()), Now::Foreign(was.clone())]);
    apply(world.dir(), &settings);
    assert_eq!((world.get(2, weight), world.get(3, weight)), ("555".into(), was.clone()));
    let reverted = revert(world.dir());
    assert_eq!((reverted.restored, reverted.already, reverted.foreign.len()), (1, 1, 1));
    assert_eq!((world.get(1, weight), world.get(2, weight)), (was.clone(), "555".into()));
    // A second look does not forget what was there before us, nor does another policy.
    apply(world.dir(), &settings);
    apply(world.dir(), &[]);
    let reverted = revert(world.dir());
    assert_eq!((reverted.restored, reverted.foreign.len()), (0, 1));
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    assert_eq!(hold.revert(true, &mut nobody).expect("written down").restored, 1);
    assert_eq!(world.get(2, weight), was);
}

/// After a revert that has left it, somebody puts back what was there: then nothing is left to restore.
#[test]
fn what_was_left_alone_and_is_as_it_was_is_free_again() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a"], false);
    let weight = world.weight();
    let settings = [set(world.group(1, weight), "300")];
    let was = world.get(1, weight);
    apply(world.dir(), &settings);
    world.put(1, weight, "555");
    assert_eq!(revert(world.dir()).foreign.len(), 1);
    world.put(1, weight, &was);
    assert_eq!(apply(world.dir(), &settings).changed, 1);
    assert_eq!(revert(world.dir()).restored, 1);
    assert_eq!(world.get(1, weight), was);
}

/// Who wants to keep what somebody else has set says so, and that is what is restored from then on.
#[test]
fn what_was_left_alone_can_be_forgotten() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a"], false);
    let weight = world.weight();
    let settings = [set(world.group(1, weight), "300")];
    apply(world.dir(), &settings);
    world.put(1, weight, "555");
    let reverted = revert(world.dir());
    HostLock::take(world.dir()).expect("nobody holds it").forget(&reverted.foreign).expect("room");
    assert!(!world.dir().join("host.ledger").exists());
    assert_eq!(apply(world.dir(), &settings).changed, 1);
    revert(world.dir());
    assert_eq!(world.get(1, weight), "555");
}

#[test]
fn by_force_it_is_changed() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b"], false);
    let weight = world.weight();
    let before = world.dump();
    let settings = [1, 2].map(|group| set(world.group(group, weight), "300"));
    apply(world.dir(), &settings);
    world.put(1, weight, "555");
    world.put(2, weight, "556");
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    let plan = hold.plan(&settings[..1], true).expect("a plan");
    hold.apply(&plan, OnError::Stop, &mut nobody).expect("written down");
    assert_eq!(world.get(1, weight), "300");
    world.put(1, weight, "557");
    // What was there before all is what comes back.
    hold.revert(true, &mut nobody).expect("written down");
    assert_eq!(world.dump(), before);
}

/// The policy gets smaller, and larger again.
#[test]
fn what_is_no_longer_wanted_is_restored() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b"], true);
    let weight = world.weight();
    let before = world.dump();
    let settings = [
        set(world.group(1, weight), "300"),
        set(world.group(2, weight), "400"),
        set(world.sched(1), "nice=4"),
    ];
    // Whoever runs the tests may have a nice value, which threads inherit.
    let was = settings[2].knob.read().expect("a thread").expect("it lives");
    apply(world.dir(), &settings);
    let two = [settings[0].clone(), set(world.sched(1), "slice_ns=5000000")];
    assert_eq!(apply(world.dir(), &two).changed, 2);
    // The nice value is as it was: what is not said is not what another policy has said.
    let now = two[1].knob.read().expect("a thread").expect("it lives");
    assert_eq!(now, format!("{was} slice_ns=5000000"));
    assert_eq!(apply(world.dir(), &[]).changed, 2);
    assert_eq!(world.dump(), before);
    assert!(!world.dir().join("host.ledger").exists(), "nothing is left to restore");
    apply(world.dir(), &settings);
    revert(world.dir());
    assert_eq!(world.dump(), before);
}

/// Groups that end, one of them replaced by one of the same name; threads that end.
#[test]
fn what_is_gone_is_dropped() {
    let Some(hierarchy) = host() else { return };
    let mut world = World::new(hierarchy, &["a", "b", "c"], true);
    let weight = world.weight();
    let mut settings: Vec<_> = [1, 2, 3].map(|group| set(world.group(group, weight), "300")).into();
    settings.extend([0, 1].map(|n| set(world.sched(n), "nice=4")));
    let was = world.get(1, weight);
    apply(world.dir(), &settings);
    drop(world.standin.take());
    let gone = |group: usize| world.hierarchy.root.join(&world.groups[group]);
    fs::remove_dir(gone(1)).expect("an empty group");
    fs::remove_dir(gone(2)).expect("an empty group");
    world.make(&world.groups[2]);
    // Somebody has given the new one what we had given the old one.
    world.put(2, weight, "300");
    let states = |now: &[lowtail_control::manage::Row]| {
        now.iter().filter(|row| row.now == Now::Gone).count()
    };
    assert_eq!(states(&status(world.dir()).expect("a ledger").rows), 4);
    let plan = plan(world.dir(), &settings, false).expect("a plan");
    assert_eq!((plan.gone, plan.changes.len(), plan.right.len()), (4, 0, 1));
    apply(world.dir(), &settings);
    assert_eq!(status(world.dir()).expect("a ledger").rows.len(), 1);
    let reverted = revert(world.dir());
    assert_eq!((reverted.restored, reverted.gone, reverted.foreign.len()), (1, 0, 0));
    assert_eq!((world.get(2, weight), world.get(3, weight)), ("300".into(), was));
}

/// Between plan and apply, and under the eyes of a plan that contradicts itself.
#[test]
fn nothing_is_done_that_was_not_planned() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b"], false);
    let weight = world.weight();
    let settings = [1, 2].map(|group| set(world.group(group, weight), "300"));
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    let plan = hold.plan(&settings, false).expect("a plan");
    world.put(2, weight, "44");
    let before = world.dump();
    let error = hold.apply(&plan, OnError::Stop, &mut nobody).expect_err("it has moved");
    assert!(matches!(&error, Error::Moved { now, .. } if now == "44"), "{error}");
    assert!(error.to_string().contains("plan again"), "{error}");
    assert_eq!(world.dump(), before);
    assert!(!world.dir().join("host.ledger").exists());
    let twice = [settings[0].clone(), set(settings[0].knob.clone(), "301")];
    let plan = hold.plan(&twice, false).expect("a plan");
    assert!(plan.is_empty(), "{plan:?}");
    let [refused] = &plan.refused[..] else { panic!("{plan:?}") };
    assert!(refused.why.contains("`300`") && refused.why.contains("`301`"), "{refused:?}");
    let wrong = [set(settings[0].knob.clone(), "much\x1b[2J")];
    let plan = hold.plan(&wrong, false).expect("a plan");
    assert!(plan.is_empty(), "{plan:?}");
    let [refused] = &plan.refused[..] else { panic!("{plan:?}") };
    assert!(refused.why.contains("whole number") && !refused.why.contains('\x1b'), "{refused:?}");
}
