//! What a policy becomes on a Xen host.

use std::collections::BTreeSet;

use lowtail_control::desired::VcpusBy;
use lowtail_control::manage::{Knob, Xen};

use super::fake::Host;
use super::{POLICY, World, apply, plan, wanted};

/// The value that is wanted of a place, by its label.
fn to(policy: &str, label: &str) -> Option<String> {
    let settings = wanted(policy).settings;
    settings.into_iter().find(|setting| setting.knob.to_string() == label).map(|setting| setting.to)
}

/// Xen's usual weight is 256, a policy's is 100 (`xl(1)`, cgroup-v2.rst); both are for each vCPU, so that ratios are the same.
#[test]
fn weights_have_the_same_ratios() {
    let _world = World::new(&Host::usual());
    assert_eq!(to("", "weight of domain 1").as_deref(), Some("256"));
    for (weight, xen) in [(1, 2), (50, 128), (100, 256), (200, 512), (10_000, 25_600)] {
        let policy = format!("[[vm]]\nname = 'web'\nweight = {weight}");
        assert_eq!(to(&policy, "weight of domain 1"), Some(xen.to_string()));
        // Who names one VM does not mean all others.
        assert_eq!(to(&policy, "weight of domain 2"), None);
    }
    assert_eq!(to("[[vm]]\nweight = 'keep'", "weight of domain 1"), None);
    // dom0 is the host.
    assert_eq!(to("[[vm]]\nname = 'Domain-0'\nweight = 7", "weight of domain 0"), None);
}

#[test]
fn all_of_it_is_set_and_then_nothing_is_left_to_do() {
    let world = World::new(&Host::usual());
    let wanted = wanted(POLICY);
    assert_eq!(wanted.vcpus, VcpusBy::Xen);
    let (first, applied) = apply(world.dir(), POLICY);
    assert_eq!((applied.failed.len(), applied.changed), (0, first.changes.len()));
    let mut host = world.fake.host();
    let set = |list: &[u32]| list.iter().copied().collect::<BTreeSet<u32>>();
    let all = set(&[0, 1, 2, 3]);
    assert_eq!((host.named("web").weight, host.named("web").cap), (1024, 150));
    // A soft affinity that the policy does not name stays.
    assert_eq!(host.named("web").vcpus, [[set(&[1, 2]), all.clone()], [set(&[1, 2]), set(&[3])]]);
    assert_eq!((host.named("batch").weight, host.named("batch").cap), (64, 0));
    assert_eq!(host.named("batch").vcpus, [[all, set(&[3])]]);
    assert_eq!(host.named("old").weight, 128);
    assert_eq!(host.pool("Pool-0").ratelimit_us, 0);
    let slow = host.pool("slow pool");
    assert_eq!((slow.ratelimit_us, slow.slice_ms, slow.migration_delay_us), (0, 5, 77));
    let again = plan(world.dir(), POLICY);
    assert_eq!(again.changes, []);
    assert_eq!((again.foreign.len(), again.refused.len(), again.unread.len()), (0, 0, 0));
}

/// The trap is credit2's since 4.10, and what is done about it is said, with what it brings and costs.
#[test]
fn what_comes_nearest_to_small_first() {
    let world = World::new(&Host::usual());
    let limit = |policy: &str| to(policy, "credit2 of pool Pool-0");
    assert_eq!(limit("").as_deref(), Some("ratelimit_us=0"));
    let notes =
        |policy: &str| wanted(policy).notes.iter().map(ToString::to_string).collect::<String>();
    let said = notes("");
    for part in
        ["Pool-0", "nearest is no rate limit", "9.99 ms", "98 %", "0.55", "slow pool credit"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(to("", "credit of pool slow pool"), None);
    assert_eq!(limit("scheduler = 'fair'"), None);
    assert_eq!(limit("[xen]\nratelimit = 'keep'"), None);
    assert_eq!(limit("[xen]\nratelimit = '2ms'").as_deref(), Some("ratelimit_us=2000"));
    let nothing = wanted("scheduler = 'none'\n[[vm]]\nname = 'web'\npcpus = '1'\ncap = '10%'");
    assert_eq!((nothing.vcpus, nothing.settings), (VcpusBy::Untouched, vec![]));
    let insists = wanted("scheduler = 'sched-ext'");
    assert!(
        insists.notes.iter().any(|note| note.fatal && note.what.contains("Xen")),
        "{insists:?}"
    );
    // Nobody is there who could wait.
    world.fake.change(|host| host.domains.retain(|domain| domain.id == 0));
    assert_eq!(limit(""), None);
}

#[test]
fn slices_of_vms_are_their_pools() {
    let _world = World::new(&Host::usual());
    let policy = "[[vm]]\nname = 'old'\nslice = '1.2ms'\n[[vm]]\nname = 'web'\nslice = '2ms'";
    assert_eq!(to(policy, "credit of pool slow pool").as_deref(), Some("tslice_ms=2"));
    let said: Vec<String> = wanted(policy).notes.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|note| note.contains("credit2 has none")), "{said:?}");
}

#[test]
fn what_xen_does_not_have_is_said() {
    let _world = World::new(&Host::usual());
    let policy = "[[vm]]\nname = 'web'\nvcpu_cap = '50%'\nemulator_weight = 10\ncap = '200%'\n[[vm]]\nname = 'batch'\npcpus = '7'";
    let wanted = wanted(policy);
    let said: Vec<String> = wanted.notes.iter().map(ToString::to_string).collect();
    for part in [
        "vcpu_cap cannot",
        "emulator_weight cannot",
        "limits none of 2 vCPUs",
        "its pool Pool-0 has pCPUs",
    ] {
        assert!(said.iter().any(|note| note.contains(part)), "{part}: {said:?}");
    }
    let caps =
        wanted.settings.iter().filter(|setting| matches!(setting.knob, Knob::Xen(Xen::Cap(_))));
    assert_eq!(caps.map(|setting| setting.to.as_str()).collect::<Vec<_>>(), ["0"]);
}
