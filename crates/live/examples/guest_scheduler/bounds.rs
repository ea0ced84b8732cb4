//! What nobody may bring about: a thread that waits until the kernel's watchdog ends the scheduler. Weights, limits, parameters and
//! crowds that are legal, each as hard as it can be. The watchdog is near, so that a scenario is short; all bounds follow it.

use std::time::Duration;

use lowtail_live::vcpu::{Cap, Options};
use lowtail_policy::Params;
use serde_json::{Value, json};

use crate::play::{Group, Part, play_with, secs};
use crate::standin::Kind;

/// How far away it is here.
const WATCHDOG: Duration = Duration::from_secs(4);

fn options() -> Options {
    Options { watchdog: WATCHDOG, ..Options::default() }
}

/// Whether a scenario is to be played: all are, or the one that is the second argument.
fn wanted(name: &str) -> bool {
    std::env::args().nth(2).is_none_or(|only| only == name)
}

fn crowd(name: &str, threads: usize) -> Part {
    Part { threads, ..Part::new(name, Kind::Loop) }
}

/// Threads that others leave little to, for twice as long as the watchdog waits.
pub(crate) fn starved() -> Value {
    let limited =
        |part: Part, basis_points| Part { cap: Some(Cap { basis_points, burst_ns: 0 }), ..part };
    let weighs = |part: Part, weight| Part { weight: Some(weight), ..part };
    let below = |part: Part| Part {
        group: Some(Group::default()),
        above: Some(("p", Group { max: "1000 1000000".to_string(), ..Group::default() })),
        ..part
    };
    let span = 2 * WATCHDOG;
    let mut figures = json!({});
    for (name, options, parts) in [
        // By the weights the light one has a turn in 65,536, and many others wait before it.
        (
            "light",
            options(),
            vec![weighs(crowd("heavy", 40), u16::MAX), weighs(crowd("light", 1), 1)],
        ),
        // A hundredth of a percent for a hundred threads.
        ("limited", options(), vec![limited(crowd("a", 100), 1), crowd("b", 20)]),
        ("limited-above", options(), vec![below(crowd("a", 100)), crowd("b", 20)]),
        // Most of these have no number: one runs in each turn of the others.
        ("no-room", Options { threads: 64, ..options() }, vec![crowd("bomb", 1000), crowd("a", 1)]),
    ] {
        if wanted(name) {
            figures[name] = play_with(Some(options), &parts, span);
        }
    }
    // With nobody else who wants the CPU a limit is one as well.
    if wanted("alone") {
        figures["alone"] = play_with(Some(options()), &[limited(crowd("a", 1), 1_000)], secs(4));
    }
    figures
}

/// Each parameter as small and as large as the check lets it be, and all of them at once, under a mixed load.
pub(crate) fn extremes() -> Value {
    let parts = [
        crowd("loops", 30),
        Part { weight: Some(1), ..crowd("light", 1) },
        Part { threads: 8, ..Part::new("ring", Kind::Ring { work_us: 50 }) },
        Part::new("server", Kind::Server { gap_us: 1_000, work_us: 100, random: true }),
        Part { threads: 4, ..Part::new("yielder", Kind::Yielder { work_us: 50 }) },
        Part {
            threads: 4,
            cap: Some(Cap { basis_points: 1, burst_ns: 0 }),
            ..Part::new("limited", Kind::Burst { sleep_us: 10_000, work_us: 10_000 })
        },
    ];
    let mut figures = json!({});
    for (name, params) in extreme_params() {
        params.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        if wanted(name) {
            figures[name] = play_with(Some(Options { params, ..options() }), &parts, secs(5));
        }
    }
    figures
}

fn extreme_params() -> Vec<(&'static str, Params)> {
    let usual = Params::default;
    let most = 1 << 30;
    vec![
        ("grain-least", Params { grain_ns: 1_000, grant_ns: 1_000, burst_ns: most, ..usual() }),
        ("grain-most", Params { grain_ns: 1_000_000, grant_ns: 1_000_000, ..usual() }),
        ("burst-least", Params { burst_ns: 2 * usual().grain_ns, ..usual() }),
        ("burst-most", Params { burst_ns: most, grant_ns: most, ..usual() }),
        ("slice-least", Params { slice_ns: 100_000, guard_ns: 1, wait_turns: 1, ..usual() }),
        ("slice-most", Params { slice_ns: most, guard_ns: most, wait_turns: 6, ..usual() }),
        ("turns-most", Params { slice_ns: 117_000_000, wait_turns: 64, ..usual() }),
        (
            "preempt-least",
            Params {
                preempt_ns: 1_000,
                preempt_burst_ns: 1_000,
                preempt_reserve_ns: 0,
                preempt_own_ns: 1_000,
                margin_ns: 0,
                ..usual()
            },
        ),
        (
            "preempt-most",
            Params {
                preempt_ns: most / 4,
                preempt_burst_ns: most,
                preempt_reserve_ns: most / 4,
                preempt_own_ns: most,
                ..usual()
            },
        ),
        (
            "follow-most",
            Params { follow_ns: most, follow_wait_ns: most, margin_ns: most, ..usual() },
        ),
    ]
}

/// Many threads that a limit stops, and that may interrupt a loop when it lets them go on: there is enough for a few of them.
pub(crate) fn paid() -> Value {
    let server = Kind::Server { gap_us: 50_000, work_us: 20, random: true };
    let parts = [
        crowd("loop", 1),
        Part {
            threads: 50,
            cap: Some(Cap { basis_points: 100, burst_ns: 0 }),
            ..Part::new("server", server)
        },
    ];
    play_with(Some(Options::default()), &parts, secs(4))
}
