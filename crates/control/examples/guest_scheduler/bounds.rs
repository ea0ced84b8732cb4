//! What nobody may bring about: a thread that waits until the kernel's watchdog ends the scheduler. Weights, limits, parameters and
//! crowds that are legal, each as hard as it can be. The watchdog is near, so that a scenario is short; all bounds follow it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lowtail_control::vcpu::{Cap, Options, State, Thread, Vm};
use lowtail_policy::Params;
use serde_json::{Value, json};

use crate::play::{Group, Part, load, play_with, secs, wanted};
use crate::standin::Kind;

/// How far away it is here.
const WATCHDOG: Duration = Duration::from_secs(4);

fn options() -> Options {
    Options { watchdog: WATCHDOG, ..Options::default() }
}

fn crowd(name: &str, threads: usize) -> Part {
    Part { threads, ..Part::new(name, Kind::Loop) }
}

fn limited(part: Part, basis_points: u32) -> Part {
    Part { cap: Some(Cap { basis_points, burst_ns: 0 }), ..part }
}

/// Threads that others leave little to, for twice as long as the watchdog waits.
pub(crate) fn starved() -> Value {
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
        // Many light ones have waited too long at the same time.
        (
            "lights",
            options(),
            vec![weighs(crowd("heavy", 40), u16::MAX), weighs(crowd("light", 100), 1)],
        ),
        // A hundredth of a percent for a hundred threads.
        ("limited", options(), vec![limited(crowd("a", 100), 1), crowd("b", 20)]),
        ("limited-above", options(), vec![below(crowd("a", 100)), crowd("b", 20)]),
        // Most of these have no number: one runs in each turn of the others.
        ("no-room", Options { threads: 64, ..options() }, vec![crowd("bomb", 1000), crowd("a", 1)]),
        // A VM of one vCPU with three hundred threads.
        ("bomb", options(), vec![Part { vcpus: Some(1), ..crowd("bomb", 300) }, crowd("a", 1)]),
    ] {
        if wanted(name) {
            figures[name] = play_with(Some(options), &parts, span);
        }
    }
    figures
}

/// Limits where nobody else wants the CPUs, of which there may be more than one.
pub(crate) fn idle() -> Value {
    let quota = Group { max: "10000 100000".to_string(), ..Group::default() };
    let sleeps = Kind::Burst { sleep_us: 60_000_000, work_us: 1 };
    let mut figures = json!({});
    for (name, parts) in [
        ("ten", vec![limited(crowd("a", 1), 1_000)]),
        ("ten-of-four", vec![limited(crowd("a", 4), 1_000)]),
        ("twenty", vec![limited(crowd("a", 1), 2_000)]),
        ("twenty-of-four", vec![limited(crowd("a", 4), 2_000)]),
        ("group", vec![Part { group: Some(quota.clone()), ..crowd("a", 1) }]),
        (
            "group-above",
            vec![Part {
                group: Some(Group::default()),
                above: Some(("p", quota)),
                ..crowd("a", 1)
            }],
        ),
        ("beside-a-sleeper", vec![limited(crowd("a", 1), 1_000), Part::new("b", sleeps)]),
    ] {
        if wanted(name) {
            figures[name] = play_with(Some(Options::default()), &parts, secs(4));
        }
    }
    figures
}

/// A process of loops with the least limit is killed: how long it takes until it has ended.
pub(crate) fn exits() -> Value {
    // Before the loops, which would take most of the CPU from the kernel's check of the programs.
    let mut scheduler = load(&options());
    let own = std::env::current_exe().expect("a program");
    let child = Command::new(own).arg("loops").stdout(Stdio::null()).spawn();
    let mut child = child.expect("a child");
    let tasks = format!("/proc/{}/task", child.id());
    let tids = || -> Vec<u32> {
        let entries = fs::read_dir(&tasks).expect("it lives");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("it lives").file_name();
        entries.filter_map(|entry| name(entry).to_str()?.parse().ok()).collect()
    };
    while tids().len() <= LOOPS {
        std::thread::sleep(Duration::from_millis(10));
    }
    let machine = Vm {
        vcpus: LOOPS as u32,
        cap: Some(Cap { basis_points: 1, burst_ns: 0 }),
        threads: tids().iter().map(|&tid| Thread { tid, ..Thread::default() }).collect(),
        ..Vm::default()
    };
    scheduler.add(&machine).expect("room");
    std::thread::sleep(secs(1));
    let began = Instant::now();
    child.kill().expect("our child");
    while child.try_wait().expect("our child").is_none() && began.elapsed() < 4 * WATCHDOG {
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = began.elapsed();
    let state = scheduler.state().expect("it says");
    drop(scheduler);
    json!({ "took_ms": took.as_millis() as u64, "enabled": state == State::Enabled, "state": state })
}

/// Threads of the process that [`exits`] kills, beside its first one.
const LOOPS: usize = 20;

/// That process.
pub(crate) fn loops() -> Value {
    for _ in 0..LOOPS {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    std::thread::sleep(secs(60));
    json!({})
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
        ("grain-least", Params { min_grant_ns: 1_000, grant_ns: 1_000, burst_ns: most, ..usual() }),
        ("grain-most", Params { min_grant_ns: 1_000_000, grant_ns: 1_000_000, ..usual() }),
        ("burst-least", Params { burst_ns: 2 * usual().min_grant_ns, ..usual() }),
        ("burst-most", Params { burst_ns: most, grant_ns: most, ..usual() }),
        (
            "slice-least",
            Params { slice_ns: 100_000, starvation_boost_ns: 1, wait_turns: 1, ..usual() },
        ),
        (
            "slice-most",
            Params { slice_ns: most, starvation_boost_ns: most, wait_turns: 6, ..usual() },
        ),
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
            Params {
                completion_window_ns: most,
                completion_wait_ns: most,
                margin_ns: most,
                ..usual()
            },
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
