//! `xl` that fails or hangs half way: what was done of it is known, and restored.

use lowtail_control::manage::{Now, status};

use super::fake::{Host, Trouble};
use super::{POLICY, World, apply, plan, revert};

/// The write of each number takes too long: done already, or not.
#[test]
fn each_write_hangs_once() {
    let before = Host::usual();
    let mut at = 0;
    loop {
        let mut hung = 0;
        for is_done in [false, true] {
            let world = World::new(&before);
            world.fake.trouble(&Trouble { write: Some((at, is_done)), ..Trouble::default() });
            let (plan, applied) = apply(world.dir(), POLICY);
            hung += applied.failed.len();
            assert_eq!(applied.changed + applied.failed.len(), plan.changes.len());
            world.fake.trouble(&Trouble::default());
            let reverted = revert(world.dir());
            assert_eq!(
                (reverted.failed, reverted.foreign),
                (vec![], vec![]),
                "write {at}, done: {is_done}"
            );
            assert_eq!(world.fake.host(), before, "write {at}, done: {is_done}");
        }
        if hung == 0 {
            break;
        }
        assert_eq!(hung, 2, "write {at}");
        at += 1;
    }
    assert!(at >= 10, "{at} writes");
}

#[test]
fn each_write_of_a_revert_hangs_once() {
    let before = Host::usual();
    for at in 0..10 {
        for is_done in [false, true] {
            let world = World::new(&before);
            apply(world.dir(), POLICY);
            world.fake.trouble(&Trouble { write: Some((at, is_done)), ..Trouble::default() });
            assert_eq!(revert(world.dir()).failed.len(), 1, "write {at}");
            world.fake.trouble(&Trouble::default());
            let again = revert(world.dir());
            assert_eq!(
                (again.failed, again.foreign),
                (vec![], vec![]),
                "write {at}, done: {is_done}"
            );
            assert_eq!(world.fake.host(), before, "write {at}, done: {is_done}");
        }
    }
}

/// A command that says nothing is no reason to take a domain for gone: what is to be restored stays written down.
#[test]
fn what_cannot_be_read_is_not_gone() {
    let before = Host::usual();
    for fails in
        ["list -v", "list -l", "vcpu-list", "info", "sched-credit", "list -c", "cpupool-list", ""]
    {
        let world = World::new(&before);
        apply(world.dir(), POLICY);
        let whole = world.fake.host();
        let entries = status(world.dir()).expect("a ledger").rows.len();
        world.fake.trouble(&Trouble { fails: Some(fails.to_string()), ..Trouble::default() });
        let rows = status(world.dir()).expect("a ledger").rows;
        assert!(!rows.iter().any(|row| row.now == Now::Gone), "{fails}: {rows:?}");
        revert(world.dir());
        world.fake.trouble(&Trouble::default());
        assert!(status(world.dir()).expect("a ledger").rows.len() <= entries);
        let reverted = revert(world.dir());
        assert_eq!((reverted.failed, reverted.foreign), (vec![], vec![]), "{fails}");
        assert_eq!(world.fake.host(), before, "{fails}");
        assert_ne!(whole, before);
    }
}

/// A domain whose configuration is locked for a moment is listed without it: its settings stay.
#[test]
fn a_domain_without_configuration_keeps_its_settings() {
    let world = World::new(&Host::usual());
    apply(world.dir(), POLICY);
    let whole = world.fake.host();
    world.fake.trouble(&Trouble { fails: None, hidden: Some(1), ..Trouble::default() });
    let plan = plan(world.dir(), POLICY);
    assert_eq!((plan.changes.len(), plan.gone), (0, 0), "{plan:?}");
    let (_, applied) = apply(world.dir(), POLICY);
    assert_eq!((applied.changed, applied.failed.len()), (0, 0));
    world.fake.trouble(&Trouble::default());
    assert_eq!(world.fake.host(), whole);
    assert_eq!(revert(world.dir()).failed, []);
    assert_eq!(world.fake.host(), Host::usual());
}
