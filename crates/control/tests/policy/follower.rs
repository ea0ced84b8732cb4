//! What `apply --watch` reports of the desired state: once while it holds, and an error where the policy insists.

use lowtail_control::reconcile::Follower;
use lowtail_discover::{Found, Kind};
use lowtail_kernel::cgroup::{Hierarchy, Version};

use crate::parse;
use crate::resolve::{capabilities, vm};

fn found(names: &[&str]) -> Found {
    let vms = names.iter().map(|name| vm(name, Kind::Qemu, true)).collect();
    let hierarchy = Hierarchy { root: "/sys/fs/cgroup".into(), version: Version::V2 };
    Found { vms, hierarchy: Some(hierarchy), ..Found::default() }
}

/// Notes of each look.
fn notes(policy: &str, looks: &[Found]) -> Vec<Result<Vec<String>, String>> {
    let policy = parse(policy).expect("a policy");
    let dir = tempfile::tempdir().expect("a directory");
    let mut follower = Follower::new(&policy, capabilities(Some(Version::V2)), dir.path());
    let look = |found: &Found| {
        let mut lines = Vec::new();
        follower.resolve(found, &mut |line| lines.push(line)).map(|_| lines)
    };
    looks.iter().map(look).collect()
}

/// A host without control groups has no limits: that is a note while it is so.
#[test]
fn a_note_is_reported_once_while_it_holds() {
    let policy = "scheduler = \"fair\"\n[[vm]]\nweight = \"keep\"\ncap = \"50%\"";
    let bare = || Found { hierarchy: None, ..found(&["web"]) };
    let all = notes(policy, &[bare(), bare(), found(&["web"]), bare()]);
    let lines: Vec<&[String]> = all.iter().map(|look| &look.as_ref().expect("known")[..]).collect();
    assert!(lines[0].len() == 1 && lines[0][0].contains("no CPU controller"), "{lines:?}");
    assert!(lines[1].is_empty() && lines[2].is_empty(), "{lines:?}");
    assert_eq!(lines[3], lines[0], "it came back");
}

#[test]
fn a_policy_that_insists_has_no_state_without_the_scheduler() {
    let all = notes("scheduler = \"sched-ext\"\n[[vm]]\nweight = 200", &[found(&["web"])]);
    assert!(all[0].as_ref().is_err_and(|why| why.contains("sched_ext")), "{all:?}");
}
