//! Where threads may run: machines on some CPUs beside machines on others, many different sets of CPUs, and sets that change while
//! they wait. Who may run on a CPU and waits, runs there before it is idle.

use serde_json::{Value, json};

use crate::play::{Part, play, secs};
use crate::standin::Kind;

fn pinned(name: String, cpus: Vec<Vec<usize>>) -> Part {
    Part { pins: cpus, ..Part::new(&name, Kind::Loop) }
}

/// The CPUs of this guest.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().expect("the kernel says").get()
}

/// On eight CPUs and more. The first is the usual pinning by node: ten machines for each CPU of one, one for each of the other.
pub(crate) fn pins() -> Value {
    let mut figures = json!({});
    let cpus = cpus();
    let half = cpus / 2;
    let (low, high): (Vec<usize>, Vec<usize>) = ((0..half).collect(), (half..cpus).collect());
    let many = (0..10 * half).map(|i| pinned(format!("a{i}"), vec![low.clone()]));
    let few = (0..half).map(|i| pinned(format!("b{i}"), vec![high.clone()]));
    let nodes: Vec<Part> = many.chain(few).collect();
    // In an emulated guest the kernel's clock of a thread and the scheduler's are up to some milliseconds apart at each switch: the
    // CPUs take turns on one of the host's, mostly where a timer is set. Over 8 s that was 6 % of a tenth of a CPU, by
    // standard deviation.
    figures["nodes"] = play(true, &nodes, secs(20));
    // Each pair of CPUs has a machine, and each CPU one of its own: on eight CPUs 36 sets.
    let sets = (0..cpus).flat_map(|a| (a..cpus).map(move |b| (a, b)));
    let sets: Vec<Part> = sets
        .map(|(a, b)| pinned(format!("m{a}-{b}"), vec![if a == b { vec![a] } else { vec![a, b] }]))
        .collect();
    figures["sets"] = play(true, &sets, secs(cpus as u64 / 2));
    // All of them on one half of the CPUs, then all on the other, and back; half of them the other way round.
    let moved: Vec<Part> = (0..2 * cpus)
        .map(|i| match i % 2 {
            0 => pinned(format!("m{i}"), vec![low.clone(), high.clone()]),
            _ => pinned(format!("m{i}"), vec![high.clone(), low.clone()]),
        })
        .collect();
    figures["moved"] = play(true, &moved, secs(8));
    figures
}

/// Quiet servers on one CPU that somebody might hide: a sleeper that wakes often beside a loop, and others of their own kind. If there are more
/// CPUs, they are idle.
pub(crate) fn hidden() -> Value {
    let on_one = |part: Part| Part { pins: vec![vec![0]], ..part };
    let sleeper = |name: &str, gap_us, work_us| {
        on_one(Part::new(name, Kind::Server { gap_us, work_us, random: false }))
    };
    let hog = |name: &str| on_one(Part::new(name, Kind::Loop));
    let mut figures = json!({});
    figures["storm"] =
        play(true, &[sleeper("quiet", 20_000, 100), sleeper("busy", 800, 20), hog("a")], secs(8));
    let three =
        [("x", 3_700), ("y", 4_300), ("z", 5_000)].map(|(name, gap_us)| sleeper(name, gap_us, 50));
    figures["three"] = play(true, &[three.to_vec(), vec![hog("a"), hog("b")]].concat(), secs(8));
    figures
}
