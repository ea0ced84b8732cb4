//! What others do meanwhile: change values, end domains, begin others under the same number.

use lowtail_control::manage::{Knob, Now, status};

use super::fake::Host;
use super::{POLICY, World, apply, plan, revert};

#[test]
fn what_somebody_else_has_changed_is_told_and_left_alone() {
    let before = Host::usual();
    let world = World::new(&before);
    apply(world.dir(), POLICY);
    world.fake.change(|host| {
        host.named("web").weight = 777;
        host.pool("Pool-0").ratelimit_us = 2000;
    });
    let plan = plan(world.dir(), POLICY);
    assert_eq!((plan.changes.len(), plan.foreign.len()), (0, 2), "{plan:?}");
    let rows = status(world.dir()).expect("a ledger").rows;
    let foreign = rows.iter().filter(|row| matches!(row.now, Now::Foreign(_)));
    assert_eq!(foreign.count(), 2);
    let reverted = revert(world.dir());
    assert_eq!((reverted.foreign.len(), reverted.failed.len()), (2, 0));
    let mut host = world.fake.host();
    assert_eq!((host.named("web").weight, host.pool("Pool-0").ratelimit_us), (777, 2000));
    host.named("web").weight = 256;
    host.pool("Pool-0").ratelimit_us = 1000;
    assert_eq!(host, before, "all else is as it was");
}

/// A number is given to another domain: nothing of that one is read as the first one's, nor written.
#[test]
fn a_number_that_is_used_again() {
    let world = World::new(&Host::usual());
    apply(world.dir(), POLICY);
    let another = "ffffffff-0000-11f0-bf61-bb65f7b1e952";
    world.fake.change(|host| {
        let web = host.named("web");
        // As like the first one as can be: it has the very values that were set.
        web.uuid = another.to_string();
    });
    let its = |host: Host| host.domains.into_iter().find(|domain| domain.uuid == another);
    let before = its(world.fake.host());
    let reverted = revert(world.dir());
    // Weight, cap, and two vCPUs.
    assert_eq!((reverted.gone, reverted.foreign.len(), reverted.failed.len()), (4, 0, 0));
    assert_eq!(its(world.fake.host()), before);
}

/// A domain comes and goes between plan and step.
#[test]
fn one_that_ends_is_gone() {
    let before = Host::usual();
    let world = World::new(&before);
    let (plan, _) = apply(world.dir(), POLICY);
    assert!(plan.changes.iter().all(|change| matches!(change.knob, Knob::Xen(_))));
    world.fake.change(|host| host.domains.retain(|domain| domain.name != "batch"));
    let (again, applied) = apply(world.dir(), POLICY);
    assert_eq!((again.changes.len(), applied.failed.len()), (0, 0));
    let reverted = revert(world.dir());
    assert_eq!((reverted.failed.len(), reverted.foreign.len()), (0, 0));
    let mut rest = before;
    rest.domains.retain(|domain| domain.name != "batch");
    assert_eq!(world.fake.host(), rest);
    assert!(!world.dir().join("host.ledger").exists());
}

/// A pool of the same name with another scheduler is another one.
#[test]
fn a_pool_that_is_made_again() {
    let world = World::new(&Host::usual());
    apply(world.dir(), POLICY);
    world.fake.change(|host| host.pool("Pool-0").scheduler = "credit".to_string());
    let before = world.fake.host().pool("Pool-0").clone();
    let reverted = revert(world.dir());
    assert_eq!(world.fake.host().pool("Pool-0").clone(), before);
    // Weights of its domains are another scheduler's now, and nobody knows what they were there.
    assert!(reverted.gone >= 1, "{reverted:?}");
}
