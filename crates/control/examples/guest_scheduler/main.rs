//! Plays scenarios of threads under a scheduler of the kernel's and under small first, inside the guest of `scripts/guest`, and
//! prints what came of them as JSON. `crates/control/tests/scheduler` boots the guest and judges.
//!
//! `guest_scheduler GROUP`, see `main`; of groups and bounds `guest_scheduler GROUP SCENARIO` plays one scenario.

mod beside;
mod bounds;
mod callbacks;
mod ends;
mod pins;
mod play;
mod standin;
mod verified;

use std::time::Duration;

use lowtail_control::vcpu::Cap;
use serde_json::{Value, json};

use play::{Group, Part, play, secs, wanted};
use standin::Kind;

/// What the victim of the experiments `attack-*` does: 5 ms between requests, 100 us for each, both exponential.
const VICTIM: Kind = Kind::Server { gap_us: 5_000, work_us: 100, random: true };
/// A server that is busy for 5 % of the time, whose answers take 100 us.
const SERVER: Kind = Kind::Server { gap_us: 2_000, work_us: 100, random: false };

fn main() {
    let group = std::env::args().nth(1).unwrap_or_default();
    let figures = match group.as_str() {
        "latency" => latency(),
        "shares" => shares(),
        "groups" => groups(),
        "hostile" => hostile(),
        "loads" => ends::loads(20),
        "many-loads" => ends::loads(200),
        "ends" => ends::ends(),
        "leaves" => ends::leaves(),
        "killed" => ends::killed(),
        "victim" => ends::to_be_killed(),
        "crowd" => crowd(),
        "hotplug" => ends::hotplug(),
        "starved" => bounds::starved(),
        "idle" => bounds::idle(),
        "exits" => bounds::exits(),
        "loops" => bounds::loops(),
        "extremes" => bounds::extremes(),
        "paid" => bounds::paid(),
        "pins" => pins::pins(),
        "hidden" => pins::hidden(),
        "callbacks" => callbacks(),
        "verified" => verified::verified(),
        "beside" => beside::beside(),
        _ => panic!(
            "`{group}`: latency, shares, groups, hostile, loads, ends, leaves, killed, crowd, hotplug, starved, idle, exits, \
             extremes, paid, pins, hidden, callbacks, verified or beside"
        ),
    };
    println!("{figures}");
}

/// A server alone, beside one loop and beside two, under both schedulers.
fn latency() -> Value {
    let server = || Part::new("server", SERVER);
    let hog = |name: &str| Part::new(name, Kind::Loop);
    let mut figures = json!({});
    for (name, parts) in [
        ("alone", vec![server()]),
        ("one", vec![server(), hog("a")]),
        ("two", vec![server(), hog("a"), hog("b")]),
    ] {
        figures[format!("{name}-fair")] = play(false, &parts, secs(4));
        figures[format!("{name}-small-first")] = play(true, &parts, secs(4));
    }
    figures
}

/// Loops with weights and caps, by the policy and by control groups.
fn shares() -> Value {
    let hog = |name: &str| Part::new(name, Kind::Loop);
    let weighted = |name: &str, weight| Part { weight: Some(weight), ..hog(name) };
    let grouped = |name: &str, group: Group| Part { group: Some(group), ..hog(name) };
    let capped = |name: &str, percent| Part { cap: Some(cap(percent)), ..hog(name) };
    let quota =
        |percent: u32| Group { max: format!("{} 100000", percent * 1_000), ..Group::default() };
    let weight = |weight| Group { weight, ..Group::default() };
    let burst = |name: &str| Part::new(name, Kind::Burst { sleep_us: 2_000, work_us: 3_000 });
    let mut figures = json!({});
    for (name, parts) in [
        (
            "two-vcpus",
            vec![Part { threads: 2, ..hog("a") }, hog("b"), burst("c"), burst("d"), burst("e")],
        ),
        ("yields", vec![Part::new("a", Kind::Yielder { work_us: 2_000 }), hog("b")]),
        ("weights", vec![weighted("a", 128), weighted("b", 256), weighted("c", 512)]),
        (
            "group-weights",
            vec![grouped("a", weight(50)), grouped("b", weight(100)), grouped("c", weight(200))],
        ),
        ("cap", vec![capped("a", 25), hog("b")]),
        ("group-cap", vec![grouped("a", quota(25)), hog("b")]),
        ("four-capped", vec![Part { threads: 4, ..capped("a", 40) }, hog("b")]),
        (
            "thread-cap",
            vec![Part { threads: 2, thread_group: Some(quota(10)), ..hog("a") }, hog("b")],
        ),
    ] {
        figures[name] = play(true, &parts, secs(4));
    }
    figures
}

/// Loops in groups below groups.
fn groups() -> Value {
    let weight = |weight| Group { weight, ..Group::default() };
    let below = |name: &str, above: &'static str, group: Group| Part {
        group: Some(Group::default()),
        above: Some((above, group)),
        ..Part::new(name, Kind::Loop)
    };
    let sleeps = Kind::Burst { sleep_us: 5_000_000, work_us: 1 };
    let limit = |percent: u32| Group { max: format!("{percent}000 100000"), ..Group::default() };
    let bursts = Kind::Burst { sleep_us: 100_000, work_us: 100_000 };
    let mut figures = json!({});
    for (name, parts) in [
        (
            "weights-above",
            vec![
                below("a", "p", weight(300)),
                below("b", "p", weight(300)),
                below("c", "q", weight(100)),
            ],
        ),
        (
            "one-sleeps",
            vec![
                below("a", "p", weight(100)),
                Part { kind: sleeps, ..below("b", "p", weight(100)) },
                below("c", "q", weight(100)),
            ],
        ),
        ("limit-above", vec![below("a", "p", limit(30)), Part::new("b", Kind::Loop)]),
        (
            "limit-shared",
            vec![
                below("a", "p", limit(30)),
                Part { group: Some(weight(200)), ..below("b", "p", limit(30)) },
                Part::new("c", Kind::Loop),
            ],
        ),
        (
            "limits-nested",
            vec![
                below("a", "p", Group { weight: 300, ..limit(60) }),
                below("b", "p/q", limit(20)),
                below("c", "p/q", limit(20)),
                Part::new("d", Kind::Loop),
            ],
        ),
        (
            "limits-changed",
            vec![
                Part { above_then: Some(limit(10)), ..below("a", "p", limit(60)) },
                Part { above_then: Some(Group::default()), ..below("b", "q", limit(20)) },
                Part { above_then: Some(weight(200)), ..below("c", "r", weight(100)) },
                Part::new("d", Kind::Loop),
            ],
        ),
        (
            "limit-of-bursts",
            ["a", "b", "c"]
                .map(|name| Part { kind: bursts, ..below(name, "p", limit(20)) })
                .into_iter()
                .chain([Part::new("d", Kind::Loop)])
                .collect(),
        ),
        ("server-below", vec![Part { kind: VICTIM, ..below("server", "p", limit(40)) }]),
        (
            "server-and-loop-below",
            vec![
                Part { kind: VICTIM, ..below("server", "p", Group { weight: 300, ..limit(40) }) },
                below("loop", "p", limit(40)),
                Part::new("d", Kind::Loop),
            ],
        ),
        (
            "moved",
            vec![
                below("a", "p", weight(300)),
                below("b", "p", weight(300)),
                Part { moves_below: Some("p"), ..below("c", "q", weight(100)) },
            ],
        ),
    ] {
        if !wanted(name) {
            continue;
        }
        // A limit lets one run once more than its rate, for what it has saved up: here that is 1 % of twice the time.
        let span = if name == "limits-nested" { secs(8) } else { secs(4) };
        figures[name] = play(true, &parts, span);
    }
    figures
}

fn cap(percent: u32) -> Cap {
    Cap { basis_points: percent * 100, burst_ns: 0 }
}

/// The attackers of the experiments `attack-*`, and honest loops in their place.
fn hostile() -> Value {
    let others = || vec![Part::new("victim", VICTIM), Part::new("loop", Kind::Loop)];
    let mut figures = json!({});
    let attackers = [
        ("honest", Kind::Loop, 1),
        ("yielder", Kind::Yielder { work_us: 50 }, 1),
        ("tick-dodger", Kind::TickDodger { tick_us: 4_000, margin_us: 200 }, 1),
        ("boost-saver", Kind::Burst { sleep_us: 300_000, work_us: 100_000 }, 1),
        ("bucket-surfer", Kind::Surfer { burst_us: 2_000, percent: 30 }, 1),
        ("edge-burner", Kind::EdgeBurner { period_us: 30_000, side_us: 9_000 }, 1),
        ("splitter", Kind::Ring { work_us: 1_000 }, 8),
    ];
    for (name, kind, threads) in attackers {
        let mut parts = others();
        parts.push(Part { threads, ..Part::new("attacker", kind) });
        figures[name] = play(true, &parts, secs(5));
    }
    // Two VMs that wake each other, and two loops in their place.
    for (name, kind) in [("storm-honest", Kind::Loop), ("storm", Kind::Ring { work_us: 100 })] {
        let mut parts = others();
        parts.push(Part::new("attacker", kind));
        parts.push(Part { ring: true, ..Part::new("accomplice", kind) });
        figures[name] = play(true, &parts, secs(5));
    }
    figures
}

/// A server beside loops, all on CPU 0, and a server that may run on any: the other CPUs are idle, so that the guest's clock counts
/// the instructions of one CPU at a time.
fn callbacks() -> Value {
    callbacks::count();
    let scenario = |loops: usize| {
        let here = |part: Part| Part { pins: vec![vec![0]], ..part };
        let hogs = (0..loops).map(|i| here(Part::new(&format!("loop{i}"), Kind::Loop)));
        let server = here(Part::new("server", SERVER));
        play(true, &hogs.chain([server]).collect::<Vec<_>>(), secs(2))
    };
    let anywhere = || play(true, &[Part::new("server", SERVER)], secs(2));
    json!({ "2": scenario(2), "20": scenario(20), "200": scenario(200), "anywhere": anywhere() })
}

/// A thousand threads that all want the CPU, of ten VMs.
fn crowd() -> Value {
    let part = |i| Part { threads: 100, ..Part::new(&format!("m{i}"), Kind::Loop) };
    let parts: Vec<Part> = (0..10).map(part).collect();
    play(true, &parts, Duration::from_secs(10))
}
