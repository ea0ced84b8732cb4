//! Simulated schedules for the Perfetto UI, read back with Perfetto's own schema.
//!
//! Needs a Python that has the package `perfetto`, named in `LOWTAIL_PERFETTO_PYTHON`;
//! `make test` sees to it.

use std::path::Path;
use std::process::Command;

use lowtail_host::record::{Note, What};
use lowtail_lab::{Experiment, Recording, RunOptions};
use serde_json::Value;

use crate::{Place, need};

/// Two servers and two CPU loops on two pCPUs for half a second: preemptions, moves and rate
/// limits, in fewer records than the command keeps, so that none is missing.
const BUSY: &str = r#"title = "Busy scenario"
seed = 5
duration = "500ms"
[host]
pcpus = 2
scheduler = { kind = "credit2", version = "4.8.1", ratelimit = "1000us" }
[vm.io]
count = 2
workload = { kind = "request-server", load = { think = { exponential = "900us" } }, service = "8us", requests = 500 }
[vm.cpu]
count = 2
workload = { kind = "cpu-loop" }
[[case]]
name = "busy 100 %"
[[case]]
name = "idle"
vms = ["io"]
"#;

/// What happened, from the simulator itself.
fn recordings() -> Vec<Recording> {
    let experiment = Experiment::parse("busy.toml", BUSY, None).unwrap();
    let options = RunOptions { record: 1 << 20, ..RunOptions::default() };
    let outcome = lowtail_lab::run(&experiment, &options, &|_| ()).unwrap();
    outcome.recordings().cloned().collect()
}

pub(crate) fn decoded(python: &Path, file: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/perfetto_schema.py");
    let output = Command::new(python).arg(script).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Slices of a track as (name, begin, end).
pub(crate) fn slices(trace: &Value, track: &str) -> Vec<(String, u64, u64)> {
    let list = trace["slices"][track].as_array().unwrap_or_else(|| panic!("no track {track}"));
    let number = |value: &Value| value.as_u64().unwrap();
    let slice = |s: &Value| (s[0].as_str().unwrap().to_string(), number(&s[1]), number(&s[2]));
    list.iter().map(slice).collect()
}

/// (vCPU, pCPU, begin, end) of every stay on a pCPU, from the records, in order of begin.
fn stays(recording: &Recording) -> Vec<(usize, usize, u64, u64)> {
    let end = recording.records.last().unwrap().time.as_ns();
    let mut stays: Vec<(usize, usize, u64, u64)> = Vec::new();
    for record in &recording.records {
        let (v, now) = (record.vcpu.index(), record.time.as_ns());
        match record.what {
            What::Run => stays.push((v, record.pcpu.index(), now, end)),
            What::Block | What::Preempt => {
                stays.iter_mut().rev().find(|stay| stay.0 == v).unwrap().3 = now;
            }
            _ => {}
        }
    }
    stays
}

#[test]
fn decodes_with_the_official_schema() {
    let python = std::env::var_os("LOWTAIL_PERFETTO_PYTHON");
    let missing = "LOWTAIL_PERFETTO_PYTHON names no Python with the package perfetto";
    let Some(python) = need(python, missing) else { return };
    let place = Place::new();
    place.write("busy.toml", BUSY);
    let ran = place.line("lab run busy.toml --no-report --perfetto busy.perfetto-trace");
    ran.expect(0, &["schedules for ui.perfetto.dev: busy.perfetto-trace\n"]);
    let trace = decoded(Path::new(&python), &place.path("busy.perfetto-trace"));
    let title = |recording: &Recording| format!("busy, case {}, seed 5", recording.case);
    let recordings = recordings();
    assert_eq!(trace["titles"], recordings.iter().map(title).collect::<Value>());
    for recording in &recordings {
        let title = title(recording);
        assert_eq!(recording.dropped, 0);
        let stays = stays(recording);
        assert!(stays.len() > 100, "{} stays on a pCPU", stays.len());
        // Each Run is a slice on the track of its pCPU and on that of its vCPU.
        for p in 0..usize::from(recording.pcpus) {
            let mine = stays.iter().filter(|stay| stay.1 == p);
            let wanted: Vec<_> =
                mine.map(|&(v, _, from, to)| (recording.vcpus[v].clone(), from, to)).collect();
            assert_eq!(slices(&trace, &format!("{title}/pCPUs/pCPU {p}")), wanted);
        }
        for (v, name) in recording.vcpus.iter().enumerate() {
            let track = slices(&trace, &format!("{title}/vCPUs/{name}"));
            let running = track.iter().filter(|(name, ..)| name == "running");
            let running: Vec<_> = running.map(|&(_, from, to)| (from, to)).collect();
            let mine = stays.iter().filter(|stay| stay.0 == v);
            assert_eq!(running, mine.map(|&(_, _, from, to)| (from, to)).collect::<Vec<_>>());
            // From its first record on, a vCPU is always in one state.
            assert!(track.windows(2).all(|pair| pair[0].2 == pair[1].1), "{name}");
        }
        let limited = |record: &&lowtail_host::record::Record| {
            matches!(record.what, What::Note(Note::RateLimited))
        };
        let marks: u64 = trace["marks"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(track, _)| track.starts_with(&title))
            .map(|(_, marks)| marks.get("goes on: rate limit").and_then(Value::as_u64).unwrap_or(0))
            .sum();
        assert_eq!(marks, recording.records.iter().filter(limited).count() as u64);
    }
}

/// Two VMs send to a third: the port to it fills up, and so do their own queues.
pub(crate) const QUEUES: &str = r#"title = "Queues"
seed = 3
duration = "300ms"
[network]
topology = { kind = "star", hosts = ["A", "B", "C"] }
link = { rate = "100Mbit/s", delay = "50us", buffer = "100KB" }
queue = { kind = "fifo" }
[traffic.bulk]
from = ["A", "B"]
to = "C"
pattern = { kind = "bulk" }
[traffic.ping]
from = "A"
to = "C"
pattern = { kind = "ping", gap = "5ms" }
[[case]]
name = "two"
[[case]]
name = "one"
set = { "traffic.bulk.from" = "A" }
"#;

#[test]
fn queues_are_counters() {
    let python = std::env::var_os("LOWTAIL_PERFETTO_PYTHON");
    let missing = "LOWTAIL_PERFETTO_PYTHON names no Python with the package perfetto";
    let Some(python) = need(python, missing) else { return };
    let place = Place::new();
    place.write("queues.toml", QUEUES);
    let line = "lab run queues.toml --no-report --perfetto q --link A --link to:C";
    place.line(line).expect(0, &[]);
    let trace = decoded(Path::new(&python), &place.path("q"));
    let experiment = Experiment::parse("queues.toml", QUEUES, None).unwrap();
    let links = vec!["A".to_string(), "to:C".to_string()];
    let watch = lowtail_lab::Watch { links, frames: 0, queues: true };
    let options = RunOptions { watch, ..RunOptions::default() };
    let outcome = lowtail_lab::run(&experiment, &options, &|_| ()).unwrap();
    let mut wanted = serde_json::Map::new();
    for case in &outcome.cases {
        let names: Vec<&str> = case.queues.iter().map(|queue| queue.name.as_str()).collect();
        assert_eq!(names, ["A: queue", "A: ring", "to:C"]);
        for queue in &case.queues {
            assert_eq!(queue.cut, 0);
            let samples = queue.samples.iter().map(|(at, bytes)| [at.as_ns(), *bytes]);
            let samples: Vec<_> = samples.collect();
            let name = format!("queues, case {}, seed 3/queues/{}", case.name, queue.name);
            // What waits changes from sample to sample, and not by itself.
            assert!(
                samples.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] != pair[1][1])
            );
            wanted.insert(name, samples.into_iter().map(|s| Value::from(s.to_vec())).collect());
        }
    }
    assert_eq!(trace["counters"], Value::Object(wanted));
    let most = |case: usize, queue: usize| {
        outcome.cases[case].queues[queue].samples.iter().map(|sample| sample.1).max().unwrap()
    };
    // Two senders fill the buffer of 100 KB, all but a frame; one alone cannot: its frames come no
    // faster than they leave.
    assert!((98_000..=100_000).contains(&most(0, 2)), "{}", most(0, 2));
    assert!(most(1, 2) <= 1538, "{}", most(1, 2));
    assert!(most(1, 0) > 100_000, "{}", most(1, 0));
}

/// The file is part of what a seed determines.
#[test]
fn the_same_bytes_every_time() {
    let place = Place::new();
    place.write("busy.toml", BUSY);
    for (file, jobs) in [("a", 1), ("b", 2)] {
        let line = format!("lab run busy.toml -q --no-report --perfetto {file} --jobs {jobs}");
        place.line(&line).expect(0, &[]);
    }
    let read = |file: &str| std::fs::read(place.path(file)).unwrap();
    assert!(read("a") == read("b"));
    assert!(read("a").len() > 10_000);
}
