//! The order of limits, on the kernel that refuses others.

use lowtail_live::cgroup::Version;
use lowtail_live::manage::{Hold, Key, OnError, Setting};

use super::world::{World, set};
use super::{Draw, apply, host, nobody, revert};

/// A tree of groups, the one above each by its index; -1 is without limit.
const TREE: [(&str, usize); 6] =
    [("a", 0), ("a/b", 1), ("a/b/c", 2), ("a/b/d", 2), ("a/e", 1), ("f", 0)];
const PERIODS_US: [i64; 3] = [10_000, 50_000, 100_000];

#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    quota: i64,
    period: i64,
    burst: i64,
}

/// Limits of which none is above that of the groups above it, as v1 wants them; the topmost has none.
fn limits(draw: &mut Draw) -> Vec<Limit> {
    let mut all = vec![Limit { quota: -1, period: 100_000, burst: 0 }];
    // What the groups above leave, in 100,000 parts of a period.
    let mut room = vec![i64::MAX];
    for (_, above) in TREE {
        let period = draw.of(&PERIODS_US);
        let most = room[above].min(200_000) * period / 100_000;
        let limit = match draw.below(3) {
            // No quota is less than a millisecond.
            _ if most < 1_000 => Limit { quota: -1, period, burst: 0 },
            0 => Limit { quota: -1, period, burst: 0 },
            _ => {
                let quota = 1_000 + draw.below((most - 999) as usize) as i64;
                Limit { quota, period, burst: draw.below(quota as usize + 1) as i64 }
            }
        };
        // Rounded up would be above what the next one has.
        let part = if limit.quota < 0 { i64::MAX } else { limit.quota * 100_000 / limit.period };
        room.push(room[above].min(part));
        all.push(limit);
    }
    all
}

fn settings(world: &World, limits: &[Limit]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (group, limit) in limits.iter().enumerate().skip(1) {
        let mut add = |key, value: String| settings.push(set(world.group(group, key), &value));
        match world.hierarchy.version {
            Version::V1 => {
                add(Key::CfsQuota, limit.quota.to_string());
                add(Key::CfsPeriod, limit.period.to_string());
                add(Key::CfsBurst, limit.burst.to_string());
            }
            Version::V2 => {
                let quota = if limit.quota < 0 { "max".into() } else { limit.quota.to_string() };
                add(Key::CpuMax, format!("{quota} {}", limit.period));
                add(Key::CpuMaxBurst, limit.burst.to_string());
            }
        }
    }
    settings
}

/// Any limits to any others: the kernel takes each step, there and back.
#[test]
fn any_limits_to_any_others() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &TREE.map(|(path, _)| path), false);
    let mut draw = Draw::new();
    for round in 0..150 {
        let (base, one, two) = (limits(&mut draw), limits(&mut draw), limits(&mut draw));
        apply(world.dir(), &settings(&world, &base));
        // As if it had been there before anybody came.
        std::fs::remove_file(world.dir().join("host.ledger")).ok();
        let before = world.dump();
        // Settings come in any order.
        let mut wanted = settings(&world, &one);
        wanted.sort_by_key(|_| draw.below(1000));
        apply(world.dir(), &wanted);
        for setting in &wanted {
            assert_eq!(setting.place.read().expect("a file").as_deref(), Some(setting.to.as_str()));
        }
        apply(world.dir(), &settings(&world, &two));
        revert(world.dir());
        assert_eq!(world.dump(), before, "round {round}: {base:?} {one:?} {two:?}");
    }
}

/// What the kernel refuses in the middle is named, and what came before it goes back.
#[test]
fn a_refusal_in_the_middle() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b"], false);
    let before = world.dump();
    // A burst above its quota: both versions refuse that. Bursts that get larger come last.
    let (limit, burst, max) = match world.hierarchy.version {
        Version::V1 => (Key::CfsQuota, Key::CfsBurst, "20000"),
        Version::V2 => (Key::CpuMax, Key::CpuMaxBurst, "20000 100000"),
    };
    let settings = [
        set(world.group(1, burst), "30000"),
        set(world.group(1, limit), max),
        set(world.group(1, world.weight()), "77"),
        set(world.group(2, limit), "50000"),
        set(world.group(2, burst), "50000"),
    ];
    for (on_error, changed, left_out) in [(OnError::Stop, 3, 1), (OnError::GoOn, 4, 0)] {
        let mut hold = Hold::take(world.dir()).expect("nobody holds it");
        let plan = hold.plan(&settings, false).expect("a plan");
        let applied = hold.apply(&plan, on_error, &mut nobody).expect("written down");
        assert_eq!((applied.changed, applied.left_out), (changed, left_out), "{applied:?}");
        let [failed] = &applied.failed[..] else { panic!("{applied:?}") };
        assert_eq!((&failed.place, failed.to.as_str()), (&settings[0].place, "30000"));
        assert!(failed.why.contains("Invalid argument"), "{}", failed.why);
        assert_eq!(world.get(1, limit), max);
        assert_eq!(hold.ledger().entries.len(), changed);
        drop(hold);
        assert_eq!(revert(world.dir()).restored, changed);
        assert_eq!(world.dump(), before);
    }
}
