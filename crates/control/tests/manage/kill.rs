//! SIGKILL at every moment: what comes next restores byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use lowtail_control::manage::{Key, Setting};
use lowtail_kernel::cgroup::Version;

use lowtail_kernel::thread::own_cpus;

use super::child::{self, killed};
use super::world::{World, set};
use super::{Draw, apply, host, revert};

/// A VM's groups with limits, and threads; two policies that differ in each of them.
fn policies() -> Option<(World, [Vec<Setting>; 2])> {
    let world = World::new(host()?, &["vm", "vm/vcpu0", "vm/vcpu1"], true);
    let mut both = [Vec::new(), Vec::new()];
    let mut each = |knob: &dyn Fn() -> lowtail_control::manage::Knob, values: [&str; 2]| {
        for (policy, value) in both.iter_mut().zip(values) {
            if !value.is_empty() {
                policy.push(set(knob(), value));
            }
        }
    };
    // Limits that cannot go in any order: all get smaller at first, then larger, and periods change with quotas.
    match world.hierarchy.version {
        Version::V1 => {
            for (group, quota, burst) in [(1, 40_000, 20_000), (2, 20_000, 20_000), (3, 30_000, 0)]
            {
                world.put(group, Key::CfsQuota, &quota.to_string());
                world.put(group, Key::CfsBurst, &burst.to_string());
            }
            each(&|| world.group(1, Key::CfsQuota), ["5000", "60000"]);
            each(&|| world.group(1, Key::CfsPeriod), ["50000", "100000"]);
            each(&|| world.group(1, Key::CfsBurst), ["1000", ""]);
            each(&|| world.group(2, Key::CfsQuota), ["1000", "-1"]);
            each(&|| world.group(2, Key::CfsPeriod), ["20000", ""]);
            each(&|| world.group(2, Key::CfsBurst), ["0", "20000"]);
            each(&|| world.group(3, Key::CfsQuota), ["8000", "50000"]);
        }
        Version::V2 => {
            for (group, max, burst) in [(1, "40000", "20000"), (2, "20000", "20000")] {
                world.put(group, Key::CpuMax, max);
                world.put(group, Key::CpuMaxBurst, burst);
            }
            each(&|| world.group(1, Key::CpuMax), ["5000 50000", "60000 100000"]);
            each(&|| world.group(1, Key::CpuMaxBurst), ["1000", ""]);
            each(&|| world.group(2, Key::CpuMax), ["1000 20000", "max"]);
            each(&|| world.group(2, Key::CpuMaxBurst), ["0", "20000"]);
        }
    }
    each(&|| world.group(2, world.weight()), ["300", "4000"]);
    each(&|| world.group(3, world.weight()), ["", "50"]);
    if let [one, two, ..] = &own_cpus().expect("own CPUs")[..] {
        each(&|| world.cpus(0), [&one.to_string(), &two.to_string()]);
        each(&|| world.cpus(3), [&two.to_string(), ""]);
    }
    each(&|| world.sched(0), ["slice_ns=10000000", "nice=3"]);
    each(&|| world.sched(2), ["nice=-3", ""]);
    each(&|| world.sched(3), ["policy=batch", "policy=fifo priority=2"]);
    each(&|| world.sched(4), ["", "nice=5"]);
    Some((world, both))
}

/// How many values differ.
fn differ(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> usize {
    a.iter().filter(|(name, value)| b.get(*name) != Some(value)).count()
}

#[test]
fn after_every_step_of_an_apply() {
    let Some((world, [first, _])) = policies() else { return };
    let before = world.dump();
    child::write(world.dir(), &first);
    let mut at = 0;
    let mut most = 0;
    while killed("apply", at, world.dir()) {
        most = most.max(differ(&world.dump(), &before));
        revert(world.dir());
        assert_eq!(world.dump(), before, "killed at moment {at}");
        at += 1;
    }
    let whole = differ(&world.dump(), &before);
    revert(world.dir());
    assert_eq!(world.dump(), before);
    // Before and after each step, and once before and after all of them.
    assert!(at >= 2 * first.len() + 2, "{at} moments");
    assert!(most >= whole && whole >= first.len(), "{most} of {whole} were changed at most");
}

/// What is restored is what was there before the first policy, whatever came between.
#[test]
fn after_every_step_of_another_apply_on_top() {
    let Some((world, [first, second])) = policies() else { return };
    let before = world.dump();
    child::write(world.dir(), &second);
    apply(world.dir(), &first);
    let mut at = 0;
    while killed("apply", at, world.dir()) {
        // One that goes on from there has the second policy in force, and no more of the first.
        if at % 2 == 0 {
            apply(world.dir(), &second);
            let dump = world.dump();
            revert(world.dir());
            apply(world.dir(), &second);
            assert_eq!(world.dump(), dump, "killed at moment {at}");
        }
        revert(world.dir());
        assert_eq!(world.dump(), before, "killed at moment {at}");
        apply(world.dir(), &first);
        at += 1;
    }
    revert(world.dir());
    assert_eq!(world.dump(), before);
    assert!(at >= 2 * second.len() + 2, "{at} moments");
}

#[test]
fn after_every_step_of_a_revert() {
    let Some((world, [first, _])) = policies() else { return };
    let before = world.dump();
    apply(world.dir(), &first);
    let mut at = 0;
    while killed("revert", at, world.dir()) {
        // And once more, in what is left of it.
        killed("revert", at / 2, world.dir());
        revert(world.dir());
        assert_eq!(world.dump(), before, "killed at moment {at}");
        apply(world.dir(), &first);
        at += 1;
    }
    assert_eq!(world.dump(), before);
    assert!(at >= 2 * first.len() + 2, "{at} moments");
}

/// Killed by another process, so at instants that nobody has thought of: while it writes its ledger, or takes hold.
#[test]
fn at_any_instant() {
    let Some((world, [first, _])) = policies() else { return };
    let before = world.dump();
    child::write(world.dir(), &first);
    let mut draw = Draw::new();
    let mut busy = 0;
    for _ in 0..60 {
        let mut child = child::command("churn", 0, world.dir()).spawn().expect("this test, again");
        std::thread::sleep(Duration::from_micros(5_000 + draw.below(25_000) as u64));
        child::sigkill(child.id());
        child.wait().expect("a child");
        busy += usize::from(fs::exists(world.dir().join("host.ledger")).expect("a directory"));
        revert(world.dir());
        assert_eq!(world.dump(), before);
    }
    assert!(busy > 10, "in {busy} of 60 there was something to restore");
}
