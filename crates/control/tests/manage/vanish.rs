//! What vanishes between two calls: threads that end and groups that are removed between looking and writing.

use std::fs;

use lowtail_control::manage::{Checkpoint, HostLock, Key, OnError, Setting};

use super::host;
use super::world::{World, set};

/// Some of each kind that a VM takes along.
fn world() -> Option<(World, Vec<Setting>)> {
    let world = World::new(host()?, &["a", "b"], true);
    let mut settings = vec![
        set(world.group(1, world.weight()), "300"),
        set(world.group(2, world.weight()), "300"),
        set(world.sched(0), "nice=4"),
        set(world.cpus(0), "0"),
        set(world.sched(1), "policy=batch"),
    ];
    match world.weight() {
        Key::CpuShares => {
            settings.push(set(world.group(1, Key::CfsQuota), "20000"));
            settings.push(set(world.group(1, Key::CfsPeriod), "50000"));
        }
        _ => settings.push(set(world.group(1, Key::CpuMax), "20000 50000")),
    }
    Some((world, settings))
}

/// At each moment of an apply, and of a revert, all VMs end: nothing fails, and nothing is left to restore.
#[test]
fn at_every_moment() {
    for revert in [false, true] {
        let (mut at, mut gone) = (0, 0);
        loop {
            let Some((mut world, settings)) = world() else { return };
            let dir = tempfile::tempdir().expect("a directory");
            let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
            let plan = hold.plan(&settings, false).expect("a plan");
            if revert {
                hold.apply(&plan, OnError::Continue, &mut super::nobody).expect("written down");
            }
            let (mut seen, mut standin) = (0, world.standin.take());
            let groups: Vec<_> =
                world.groups[1..].iter().map(|path| world.hierarchy.root.join(path)).collect();
            let mut tell = |_: Checkpoint<'_>| {
                if seen == at {
                    drop(standin.take());
                    groups.iter().rev().for_each(|dir| fs::remove_dir(dir).expect("empty"));
                }
                seen += 1;
            };
            if revert {
                let reverted = hold.revert(false, &mut tell).expect("written down");
                assert_eq!(
                    (&reverted.failed[..], &reverted.foreign[..]),
                    (&[][..], &[][..]),
                    "{at}"
                );
                gone += reverted.gone;
            } else {
                let applied =
                    hold.apply(&plan, OnError::Continue, &mut tell).expect("written down");
                assert_eq!(applied.failed, [], "{at}");
                gone += applied.gone;
                // Whatever was written down is gone.
                let reverted = hold.revert(false, &mut super::nobody).expect("written down");
                // At the last one, which there is not, nothing has vanished.
                assert!(reverted.restored == 0 || seen <= at, "{at}: {reverted:?}");
                assert_eq!(reverted.failed, [], "{at}");
                assert_eq!(reverted.foreign, []);
            }
            assert!(!dir.path().join("host.ledger").exists(), "{at}");
            if seen <= at {
                break;
            }
            at += 1;
        }
        // Once written down, before and after each step, and settled.
        assert!(at >= 2 * 6 + 2 && gone > 20, "{at} moments, {gone} gone");
    }
}
