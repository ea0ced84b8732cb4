//! Xen with the patches of `patches/xen` beside the same Xen without them: `make mended`.
//!
//! Both are built by `scripts/xen-build` from Debian's source, with event counters, and booted by `scripts/xen` on a machine whose clock
//! counts instructions. Their guests play cases of the experiment `credit2-mended`; `count` says what dom0 does. An hour or so on two
//! cores, so that `cargo test` leaves it out. `LOWTAIL_XEN_SERIES` says which Xen: 4.17 unless it says otherwise.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use lowtail_testkit::boot;
use serde_json::Value;

/// Seconds of each case.
const SECONDS: u32 = 20;
/// The workloads, without the scheduler.
const WORKLOADS: [&str; 3] = ["sleeper", "server", "two sleepers"];
/// The pCPU of guests.
const PCPU: &str = "CPU01[";
/// What is wanted: p99 in us, and how many more runs of the scheduler.
const P99_US: f64 = 1_100.0;
const MORE_RUNS: f64 = 1.05;
/// Missed on Xen 4.17, by 10 and 5.7 %: who is no longer held up wakes up more often. For a switch it is at most 3 % more.
const MISSED: [&str; 2] = ["server: runs", "two sleepers: runs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn series() -> String {
    std::env::var("LOWTAIL_XEN_SERIES").unwrap_or_else(|_| "4.17".into())
}

/// Runs a script; what it prints, or `None` where it says that there is nothing to boot.
fn script(name: &str, words: &[&str], settings: &[(&str, String)]) -> Option<String> {
    let mut command = Command::new(root().join("scripts").join(name));
    command.args(words).env("LOWTAIL_XEN_SERIES", series());
    let output = boot::output(command.envs(settings.iter().cloned()))?;
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}: {why}", output.status);
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What one Xen has shown of one workload.
#[derive(Debug, Default)]
struct Shown {
    /// The worst of its VMs, in us.
    p50_us: f64,
    p99_us: f64,
    p99_9_us: f64,
    /// Counted while it was played, on the pCPU of guests.
    runs: f64,
    switches: f64,
    ipis: f64,
}

/// What Xen has counted of `counter` on the pCPU of guests, in each play; the last are those of the workloads.
fn counted(text: &str, counter: &str) -> Vec<f64> {
    let lines = text.lines().filter(|line| line.contains(counter));
    let all = lines.map(|line| {
        let number = line.split(PCPU).nth(1).and_then(|rest| rest.split(']').next());
        number.map_or(Some(0.0), |number| number.trim().parse().ok())
    });
    let all: Option<Vec<f64>> = all.collect();
    let mut all = all.unwrap_or_else(|| panic!("no numbers of {counter} in {text}"));
    assert!(all.len() >= WORKLOADS.len(), "{counter} in {text}");
    all.split_off(all.len() - WORKLOADS.len())
}

/// The largest value of a figure in a case, in us: that of the real Xen (`kernel` is the name of its column).
fn largest(case: &Value, figure: &str) -> f64 {
    let figures = case["figures"].as_array().expect("figures");
    let of = figures.iter().filter(|of| of["figure"] == format!("{figure}_seconds"));
    of.filter_map(|of| of["kernel"].as_f64()).fold(0.0, f64::max) * 1e6
}

/// Boots the Xen of that build and has it play all workloads as the simulator's `version` does.
fn play(build: &str, version: &str) -> Option<Vec<Shown>> {
    let hypervisor = script("xen-build", &[build], &[])?;
    let also = tempfile::tempdir().expect("a directory");
    for file in ["experiments/credit2-mended.toml", "crates/cli/tests/mended/count"] {
        let name = Path::new(file).file_name().expect("a name");
        std::fs::copy(root().join(file), also.path().join(name)).expect("copied");
    }
    let cases: Vec<String> = WORKLOADS.iter().map(|w| format!("{w}, credit2 {version}")).collect();
    let seconds = SECONDS.to_string();
    let mut words = vec!["run", env!("CARGO_BIN_EXE_lowtail"), "/also/count", &seconds];
    words.extend(cases.iter().map(String::as_str));
    let settings = [
        ("LOWTAIL_XEN_HYPERVISOR", hypervisor.trim().to_string()),
        ("LOWTAIL_XEN_ALSO", also.path().display().to_string()),
        ("LOWTAIL_XEN_TURN_US", "100".to_string()),
        ("LOWTAIL_XEN_MEMORY", "2112".to_string()),
        ("LOWTAIL_XEN_SECONDS", "7200".to_string()),
        // What is counted is printed to the console, and read from there at the end.
        ("LOWTAIL_XEN_OPTIONS", "conring_size=1M".to_string()),
    ];
    let text = script("xen", &words, &settings)?;
    let json = text.lines().find(|line| line.starts_with('{')).expect("JSON");
    let json: Value = serde_json::from_str(json).expect("JSON");
    let played = json["experiments"][0]["cases"].as_array().expect("cases");
    assert_eq!(played.len(), WORKLOADS.len(), "{text}");
    let (runs, switches) =
        (counted(&text, "runs through scheduler"), counted(&text, "context switches"));
    let ipis = counted(&text, "#IPIs");
    let shown = played.iter().enumerate().map(|(i, case)| Shown {
        p50_us: largest(case, "p50"),
        p99_us: largest(case, "p99"),
        p99_9_us: largest(case, "p99_9"),
        runs: runs[i],
        switches: switches[i],
        ipis: ipis[i],
    });
    Some(shown.collect())
}

/// The patched one has a p99 of at most 1.1 ms at a rate limit of 1 ms, where the other waits for up to 10 ms, and runs its scheduler at
/// most 5 % more often, but for `MISSED`; for a switch of contexts it always does.
#[test]
#[ignore = "builds and boots two hypervisors: an hour; make mended"]
fn the_trap_is_mended() {
    // Built one after the other, booted beside each other.
    for build in ["unpatched", "mended"] {
        if script("xen-build", &[build], &[]).is_none() {
            return;
        }
    }
    let (unpatched, mended) = thread::scope(|scope| {
        let unpatched = scope.spawn(|| play("unpatched", "4.10"));
        let mended = play("mended", "mended");
        (unpatched.join().expect("played"), mended)
    });
    let (Some(unpatched), Some(mended)) = (unpatched, mended) else { return };
    let mut missed = Vec::new();
    println!(
        "Xen {}, a rate limit of 1000 us, latency in us, and what was counted in {SECONDS} s and around",
        series()
    );
    println!("workload      Xen         p50     p99   p99.9    runs  switches  IPIs");
    for (workload, (before, after)) in WORKLOADS.iter().zip(unpatched.iter().zip(&mended)) {
        for (name, Shown { p50_us, p99_us, p99_9_us, runs, switches, ipis }) in
            [("unpatched", before), ("mended", after)]
        {
            println!(
                "{workload:12}  {name:9} {p50_us:6.0}  {p99_us:6.0}  {p99_9_us:6.0}  {runs:6.1}  {switches:8.1}  {ipis:4.1}"
            );
        }
        // Else this shows nothing.
        assert!(before.p99_us > 5_000.0, "{workload}: the trap is not there: {before:?}");
        for (what, holds) in [
            ("p99", after.p99_us <= P99_US),
            ("runs", after.runs <= MORE_RUNS * before.runs),
            (
                "runs for a switch",
                after.runs / after.switches <= MORE_RUNS * before.runs / before.switches,
            ),
        ] {
            let what = format!("{workload}: {what}");
            if holds == MISSED.contains(&what.as_str()) {
                missed.push(format!(
                    "{what}: {}: {before:?}, mended {after:?}",
                    if holds { "holds now" } else { "missed" }
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
