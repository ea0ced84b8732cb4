//! Where threads may run: machines on some CPUs beside machines on others, many different sets of CPUs, and sets that change while
//! they wait. Who may run on a CPU and waits, runs there before it is idle.

use serde_json::{Value, json};

use crate::play::{Part, play, secs};
use crate::standin::Kind;

fn pinned(name: String, cpus: Vec<Vec<usize>>) -> Part {
    Part { pins: cpus, ..Part::new(&name, Kind::Loop) }
}

/// On eight CPUs. The first is the usual pinning by node: forty machines on one, four on the other.
pub(crate) fn pins() -> Value {
    let mut figures = json!({});
    let nodes: Vec<Part> = (0..44)
        .map(|i| match i {
            0..40 => pinned(format!("a{i}"), vec![vec![0, 1, 2, 3]]),
            _ => pinned(format!("b{i}"), vec![vec![4, 5, 6, 7]]),
        })
        .collect();
    // In an emulated guest the kernel's clock of a thread and the scheduler's are up to some milliseconds apart at each switch: the
    // CPUs take turns on one of the host's, mostly where a timer is set. Over 8 s that was 6 % of a tenth of a CPU, by
    // standard deviation.
    figures["nodes"] = play(true, &nodes, secs(20));
    // Each pair of CPUs has a machine, and each CPU one of its own: 36 sets.
    let sets = (0..8).flat_map(|a| (a..8).map(move |b| (a, b)));
    let sets: Vec<Part> = sets
        .map(|(a, b)| pinned(format!("m{a}{b}"), vec![if a == b { vec![a] } else { vec![a, b] }]))
        .collect();
    figures["sets"] = play(true, &sets, secs(4));
    // All of them on four CPUs, then all on the four others, and back; half of them the other way round.
    let (low, high) = (vec![0, 1, 2, 3], vec![4, 5, 6, 7]);
    let moved: Vec<Part> = (0..16)
        .map(|i| match i % 2 {
            0 => pinned(format!("m{i}"), vec![low.clone(), high.clone()]),
            _ => pinned(format!("m{i}"), vec![high.clone(), low.clone()]),
        })
        .collect();
    figures["moved"] = play(true, &moved, secs(8));
    figures
}

/// Quiet servers on one CPU that somebody might hide: a sleeper that wakes often beside a loop, and others of their own kind.
pub(crate) fn hidden() -> Value {
    let sleeper = |name: &str, gap_us, work_us| {
        Part::new(name, Kind::Server { gap_us, work_us, random: false })
    };
    let hog = |name: &str| Part::new(name, Kind::Loop);
    let mut figures = json!({});
    figures["storm"] =
        play(true, &[sleeper("quiet", 20_000, 100), sleeper("busy", 800, 20), hog("a")], secs(8));
    let three =
        [("x", 3_700), ("y", 4_300), ("z", 5_000)].map(|(name, gap_us)| sleeper(name, gap_us, 50));
    figures["three"] = play(true, &[three.to_vec(), vec![hog("a"), hog("b")]].concat(), secs(8));
    figures
}
