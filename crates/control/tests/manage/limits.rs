//! The order of limits, on the kernel that refuses others.

use lowtail_control::manage::{HostLock, Key, OnError, Setting};
use lowtail_kernel::cgroup::Version;

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
    // v2 has fewer files and fewer rules, and a guest is slow.
    let rounds = if world.hierarchy.version == Version::V1 { 150 } else { 20 };
    for round in 0..rounds {
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
            assert_eq!(setting.knob.read().expect("a file").as_deref(), Some(setting.to.as_str()));
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
    for (on_error, changed, left_out) in [(OnError::Stop, 3, 1), (OnError::Continue, 4, 0)] {
        let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
        let plan = hold.plan(&settings, false).expect("a plan");
        let applied = hold.apply(&plan, on_error, &mut nobody).expect("written down");
        assert_eq!((applied.changed, applied.left_out), (changed, left_out), "{applied:?}");
        let [failed] = &applied.failed[..] else { panic!("{applied:?}") };
        assert_eq!((&failed.knob, failed.to.as_str()), (&settings[0].knob, "30000"));
        assert!(failed.why.contains("Invalid argument"), "{}", failed.why);
        assert_eq!(world.get(1, limit), max);
        assert_eq!(hold.ledger().entries.len(), changed);
        drop(hold);
        assert_eq!(revert(world.dir()).restored, changed);
        assert_eq!(world.dump(), before);
    }
}

/// v1: a group that would have more than the one above it. Quota and period go back together, so that it is not left
/// without a limit in between; the same when what was there cannot be restored because of somebody else.
#[test]
fn half_a_limit_goes_back() {
    let Some(hierarchy) = host() else { return };
    if hierarchy.version == Version::V2 {
        return;
    }
    let world = World::new(hierarchy, &["a", "a/b"], false);
    world.put(1, Key::CfsQuota, "20000");
    world.put(2, Key::CfsQuota, "10000");
    let before = world.dump();
    let part = |quota: &str, period: &str| {
        [set(world.group(2, Key::CfsQuota), quota), set(world.group(2, Key::CfsPeriod), period)]
    };
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    // 60 % within 20 %.
    let plan = hold.plan(&part("30000", "50000"), false).expect("a plan");
    let applied = hold.apply(&plan, OnError::Continue, &mut nobody).expect("written down");
    assert_eq!((applied.changed, applied.failed.len(), applied.left_out), (0, 1, 1), "{applied:?}");
    assert_eq!(world.dump(), before);
    assert!(!world.dir().join("host.ledger").exists(), "nothing was changed");
    drop(hold);

    apply(world.dir(), &part("2000", "50000"));
    let ours = world.dump();
    // Somebody leaves 5 % to the group above: 10 % do not fit any more, 4 % do.
    world.put(1, Key::CfsQuota, "5000");
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    let reverted = hold.revert(false, &mut nobody).expect("written down");
    assert_eq!((reverted.restored, reverted.failed.len()), (0, 1), "{reverted:?}");
    world.put(1, Key::CfsQuota, "20000");
    assert_eq!(world.dump(), ours, "as we had it");
    drop(hold);
    assert_eq!(revert(world.dir()).restored, 2);
    assert_eq!(world.dump(), before);
}

/// The kernel takes a set of CPUs with some that are not there, and makes less of it: that is not what was wanted.
#[test]
fn what_the_kernel_makes_of_a_value() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &[], true);
    let before = world.dump();
    let own = lowtail_kernel::thread::own_cpus().expect("own CPUs");
    // nix counts 1024; no host of ours has the last one.
    let settings = [set(world.cpus(0), &format!("{},1023", own[0])), set(world.sched(0), "nice=1")];
    let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
    let plan = hold.plan(&settings, false).expect("a plan");
    let applied = hold.apply(&plan, OnError::Continue, &mut nobody).expect("written down");
    assert_eq!((applied.changed, applied.failed.len()), (1, 1), "{applied:?}");
    let why = &applied.failed[0].why;
    assert!(why.contains(&format!("made `{}` of it", own[0])), "{why}");
    drop(hold);
    revert(world.dir());
    assert_eq!(world.dump(), before);
}
