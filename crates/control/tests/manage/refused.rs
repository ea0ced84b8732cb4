//! What a place cannot have keeps nothing else from being done; what is not known is not what nobody wants.

use std::process::Command;

use lowtail_control::manage::{HostLock, Knob, OnError, Unknown, Wanted, plan, status};

use super::world::{World, set};
use super::{host, nobody, revert};

/// Gives a thread another policy, as its owner may.
pub(crate) fn chrt(option: &str, priority: &str, tid: u32) {
    let mut chrt = Command::new("chrt");
    let chrt = chrt.args([option, "-p", priority, &tid.to_string()]).status();
    assert!(chrt.expect("there is a `chrt`").success(), "{option} {priority}");
}

/// A thread of one of them has a policy of its own: it is told, and all others get what they shall have.
#[test]
fn one_thread_with_a_policy_of_its_own_stops_nothing() {
    let Some(hierarchy) = host() else { return };
    for (option, priority) in [("--fifo", "1"), ("--rr", "1"), ("--idle", "0")] {
        let world = World::new(hierarchy.clone(), &["a"], true);
        chrt(option, priority, world.thread(0).tid());
        let before = world.dump();
        let mut settings = vec![set(world.group(1, world.weight()), "300")];
        settings.extend([0, 1, 2].map(|n| set(world.sched(n), "nice=4 policy=batch")));
        let wanted = plan(world.dir(), &settings, false).expect("a plan");
        assert_eq!((wanted.refused.len(), wanted.changes.len()), (1, 3), "{wanted:?}");
        let refused = &wanted.refused[0];
        assert_eq!(refused.knob, world.sched(0));
        assert_eq!(refused.wanted, "nice=4 policy=batch");
        assert!(refused.why.contains("real-time, deadline or idle"), "{refused:?}");
        let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
        let done = hold.apply(&wanted, OnError::Stop, &mut nobody).expect("written down");
        assert_eq!((done.changed, done.failed.len(), done.left_out), (3, 0, 0), "{done:?}");
        drop(hold);
        assert_eq!(world.get(1, world.weight()), "300");
        assert_eq!(revert(world.dir()).restored, 3);
        assert_eq!(world.dump(), before);
    }
}

/// Two values for a place that has one of ours: it keeps that, and is still restored.
#[test]
fn a_place_that_is_refused_keeps_what_it_has() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b"], false);
    let before = world.dump();
    let [one, two] = [1, 2].map(|group| world.group(group, world.weight()));
    super::apply(world.dir(), &[set(one.clone(), "300")]);
    let settings = [set(one.clone(), "400"), set(one.clone(), "500"), set(two, "600")];
    let wanted = plan(world.dir(), &settings, false).expect("a plan");
    assert_eq!((wanted.refused.len(), wanted.changes.len()), (1, 1), "{wanted:?}");
    super::apply(world.dir(), &settings);
    let weights = [1, 2].map(|group| world.get(group, world.weight()));
    assert_eq!(weights, ["300", "600"]);
    assert_eq!(revert(world.dir()).restored, 2);
    assert_eq!(world.dump(), before);
}

/// What could not be looked at stays as it is; what nobody wants is restored beside it.
#[test]
fn what_is_not_known_stays() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b"], true);
    let before = world.dump();
    let weight = world.weight();
    let settings = [
        set(world.group(1, weight), "300"),
        set(world.group(2, weight), "300"),
        set(world.sched(0), "nice=4"),
        set(world.sched(1), "nice=4"),
    ];
    super::apply(world.dir(), &settings);
    let unknown = vec![
        Unknown::Group(world.groups[1].clone()),
        Unknown::Thread(world.thread(0).tid()),
        Unknown::Interfaces,
    ];
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    let plan = hold.plan_wanted(&Wanted { settings: Vec::new(), unknown }, false).expect("a plan");
    hold.apply(&plan, OnError::Stop, &mut nobody).expect("written down");
    drop(hold);
    let rows = status(world.dir()).expect("a ledger").rows;
    let left: Vec<&Knob> = rows.iter().map(|row| &row.entry.knob).collect();
    assert_eq!(left, [&settings[0].knob, &settings[2].knob]);
    assert_eq!(
        [1, 2].map(|group| world.get(group, weight)),
        ["300".to_string(), was(&before, &world)]
    );
    assert_eq!(revert(world.dir()).restored, 2);
    assert_eq!(world.dump(), before);
}

/// The weight that the second group had.
fn was(before: &std::collections::BTreeMap<String, String>, world: &World) -> String {
    let name = format!("{}/{}", world.groups[2].display(), world.weight().file());
    before[&name].trim_end().to_string()
}

/// Somebody writes after our step, while we still settle: that value never becomes ours, also where we were forced upon an
/// earlier one of his.
#[test]
fn what_somebody_writes_meanwhile_is_not_ours() {
    let Some(hierarchy) = host() else { return };
    for force in [false, true] {
        let world = World::new(hierarchy.clone(), &["a"], false);
        let weight = world.weight();
        super::apply(world.dir(), &[set(world.group(1, weight), "300")]);
        if force {
            world.put(1, weight, "555");
        }
        let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
        let settings = [set(world.group(1, weight), "400")];
        let plan = hold.plan(&settings, force).expect("a plan");
        let mut meddle = |moment: lowtail_control::manage::Checkpoint<'_>| {
            if matches!(moment, lowtail_control::manage::Checkpoint::After(_)) {
                world.put(1, weight, "777");
            }
        };
        hold.apply(&plan, OnError::Stop, &mut meddle).expect("written down");
        drop(hold);
        let reverted = revert(world.dir());
        assert_eq!((reverted.restored, reverted.foreign.len()), (0, 1), "{force}: {reverted:?}");
        assert_eq!(world.get(1, weight), "777");
    }
}

/// A thread's name is any bytes, as `prctl(PR_SET_NAME)` takes them and as QEMU cuts a long one in the middle of a character.
#[test]
fn a_name_that_is_no_utf8() {
    if host().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let args = "--name cut --vcpus 1 --io 2 --cut-names";
    let standin = lowtail_standin::start(args).expect("it begins");
    let tid = standin.begun.threads[1].0;
    let comm = std::fs::read(format!("/proc/{tid}/comm")).expect("it lives");
    assert!(String::from_utf8(comm).is_err(), "its name is cut");
    let shown = || lowtail_standin::shown::thread(tid).expect("it lives");
    let before = shown();
    let thread = lowtail_control::manage::Thread::of(tid).expect("a /proc").expect("it lives");
    let sched = Knob::Sched(lowtail_control::manage::Sched { thread });
    let cpus = Knob::Affinity(lowtail_control::manage::Affinity { thread });
    super::apply(dir.path(), &[set(sched, "nice=-20"), set(cpus, "0")]);
    assert_ne!(shown(), before);
    assert_eq!(revert(dir.path()).restored, 2);
    assert_eq!(shown(), before);
}
