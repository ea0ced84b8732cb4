//! Any sequence of applies, kills, reverts and what others do, against a model.

use std::fs;

use lowtail_control::manage::{Key, Knob, Setting};
use lowtail_kernel::thread::own_cpus;

use super::child::{self, killed};
use super::world::{World, set};
use super::{Draw, apply, host, revert};

/// What others put there; no policy here has such values.
const THEIRS: [&str; 3] = ["711", "712", "713"];
const OURS: [&str; 4] = ["100", "300", "900", "1000"];
const NICE: [&str; 4] = ["nice=1", "nice=2 slice_ns=7000000", "policy=batch", "slice_ns=3000000"];

/// The model is short: what nobody of us has touched, and what others have touched last, is what is there when all is
/// reverted, however often we have been killed.
#[test]
fn sequences() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "a/b", "a/c", "d"], true);
    let weight = world.weight();
    let mut cpus: Vec<String> =
        own_cpus().expect("own CPUs").iter().map(usize::to_string).collect();
    cpus.push(cpus.join(","));
    let mut draw = Draw::new();
    let mut base = world.dump();
    let (mut kills, mut foreign) = (0, 0);
    for step in 0..250 {
        let policy = policy(&world, &cpus, &mut draw);
        match draw.below(6) {
            0 => drop(apply(world.dir(), &policy)),
            1 => {
                revert(world.dir());
                assert_eq!(world.dump(), base, "step {step}");
            }
            2 => {
                let group = 1 + draw.below(4);
                world.put(group, weight, draw.of(&THEIRS));
                let name = |file: &str| format!("{}/{file}", world.groups[group].display());
                // v2 shows it a second time.
                for file in [weight.file(), "cpu.weight.nice"] {
                    let path = world.file(group, weight).with_file_name(file);
                    fs::read_to_string(path).ok().and_then(|text| base.insert(name(file), text));
                }
                foreign += 1;
            }
            3 => {
                kills += usize::from(killed("revert", draw.below(30), world.dir()));
            }
            _ => {
                child::write(world.dir(), &policy);
                kills += usize::from(killed("apply", draw.below(30), world.dir()));
            }
        }
    }
    revert(world.dir());
    assert_eq!(world.dump(), base);
    assert!(kills > 30 && foreign > 10, "{kills} kills, {foreign} changes by others");
}

/// Some places with some values.
fn policy(world: &World, cpus: &[String], draw: &mut Draw) -> Vec<Setting> {
    let mut knobs: Vec<(Knob, String)> = Vec::new();
    for group in 1..5 {
        knobs.push((world.group(group, world.weight()), draw.of(&OURS).into()));
    }
    for n in 0..5 {
        knobs.push((world.sched(n), draw.of(&NICE).into()));
        knobs.push((world.cpus(n), draw.of(cpus)));
    }
    if world.weight() == Key::CpuShares {
        let (quota, period) = (1_000 * (1 + draw.below(9)), draw.of(&[10_000, 20_000, 100_000]));
        knobs.push((world.group(1, Key::CfsQuota), quota.to_string()));
        knobs.push((world.group(1, Key::CfsPeriod), period.to_string()));
    }
    knobs.retain(|_| draw.below(3) > 0);
    knobs.into_iter().map(|(knob, to)| set(knob, &to)).collect()
}
