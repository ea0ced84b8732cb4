//! Outcomes of experiments.

use lowtail_arrow::lab;
use lowtail_host::record::What;
use lowtail_lab::{Experiment, Outcome, RunOptions, Watch};
use serde_json::Value;

use crate::{Cell, get, is, same, says_what_it_is, there_and_back};

/// Two cases with a variable, several rows, two kinds of VMs; claims that hold, that do not, that are published, bounded or shown only; a
/// unit that is none of JSON's.
const VMS: &str = r#"title = "VMs"
seed = 5
duration = "200ms"
show = ["switches_per_second"]
[host]
pcpus = 2
scheduler = { kind = "credit2", version = "4.8.1", ratelimit = "1000us" }
[vm.io]
count = 2
workload = { kind = "request-server", load = { think = { exponential = "900us" } }, service = "8us", requests = 100 }
[vm.nap]
workload = { kind = "timer-sleeper", sleep = "1ms", wakeups = 100, late_limit = "10us" }
[vm.cpu]
count = 2
workload = { kind = "cpu-loop" }
[[case]]
name = "busy {limit}"
for = { limit = ["500us", "1000us"] }
set = { "host.scheduler.ratelimit" = "{limit}" }
[[case]]
name = "idle"
vms = ["io"]
[[claim]]
id = "soon"
case = "busy 500us/nap"
metric = "p99"
at_most = 100000
[[claim]]
id = "never"
case = "busy 1000us/nap"
metric = "p50"
at_most = 0.000001
[[published]]
case = "busy 500us/io"
metric = "avg"
figure = 12.5
"#;

/// Two hosts send to a third, one of them a list.
const NETWORK: &str = r#"title = "Network"
seed = 3
duration = "100ms"
[network]
topology = { kind = "star", hosts = ["A", "B", "C"] }
link = { rate = "100Mbit/s", delay = "50us", buffer = "100KB" }
queue = { kind = "fifo" }
[traffic.bulk]
from = "A"
to = "C"
pattern = { kind = "bulk" }
[traffic.ping]
from = "B"
to = "C"
pattern = { kind = "ping", gap = "5ms" }
[[case]]
name = "two"
"#;

fn run(name: &str, text: &str, options: &RunOptions) -> Outcome {
    let experiment = Experiment::parse(&format!("{name}.toml"), text, None).expect("a scenario");
    lowtail_lab::run(&experiment, options, &|_| ()).expect("it runs")
}

/// One with a seed, one with several, and a network.
fn outcomes() -> Vec<Outcome> {
    let plain = RunOptions { record: 1 << 20, ..RunOptions::default() };
    let seeds = RunOptions { seeds: Some(3), ..RunOptions::default() };
    let watch = Watch { queues: true, ..Watch::default() };
    let watched = RunOptions { watch, completions: true, ..RunOptions::default() };
    vec![run("vms", VMS, &plain), run("seeds", VMS, &seeds), run("network", NETWORK, &watched)]
}

#[test]
fn rows_are_those_of_json() {
    let outcomes = outcomes();
    let all = lab::rows(&outcomes);
    says_what_it_is(&all);
    // An experiment after the other makes the same lines as all at once.
    let columns = lab::FigureColumns::of(&outcomes);
    let each = outcomes.iter().map(|one| columns.rows(std::slice::from_ref(one)));
    let lines = there_and_back(&each.collect::<Vec<_>>());
    assert_eq!(lines, there_and_back(&[all]));
    let mut lines = lines.iter();
    let (mut figures, mut intervals) = (0, 0);
    for outcome in &outcomes {
        let json = outcome.json();
        let rows = json["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), outcome.rows.len());
        for (row, with) in rows.iter().zip(&outcome.rows) {
            let line = lines.next().expect("a line for each row");
            same(line, &json, &[("experiment", "/name"), ("seed", "/seed"), ("full", "/full")]);
            assert_eq!(*get(line, "seeds"), Cell::Whole(outcome.seeds.into()));
            let fields = row.as_object().expect("a row");
            for (key, value) in fields.iter().filter(|(key, _)| *key != "intervals") {
                assert!(is(get(line, key), value), "{key}: {:?}, {value}", get(line, key));
                figures += 1;
            }
            let own = fields.get("intervals").and_then(Value::as_object);
            for (key, value) in own.into_iter().flatten() {
                let cell = get(line, &format!("interval.{key}"));
                assert!(is(cell, value), "{key}: {cell:?}, {value}");
                intervals += 1;
            }
            // And what JSON does not have is null.
            for (name, cell) in line {
                let own = |name: &str| own.is_some_and(|own| own.contains_key(name));
                let there = match name.split_once('.') {
                    Some(("interval", figure)) => own(figure),
                    Some(("variable", variable)) => with.variable(variable).is_some(),
                    _ => {
                        fields.contains_key(name)
                            || ["experiment", "seed", "seeds", "full"].contains(&name.as_str())
                    }
                };
                assert!(there || *cell == Cell::Null, "{name}: {cell:?}");
            }
            for (name, value) in &with.variables {
                let cell = get(line, &format!("variable.{name}"));
                assert_eq!(*cell, Cell::Text(value.clone()));
            }
        }
    }
    assert!(lines.next().is_none());
    assert!(figures > 300 && intervals > 200, "{figures} figures, {intervals} intervals");
    // So that the test cannot pass without them.
    let some = |column: &str| {
        there_and_back(&[lab::rows(&outcomes)])
            .iter()
            .filter(|line| *get(line, column) != Cell::Null)
            .count()
    };
    for column in [
        "p99_seconds",
        "cpus_used.cpu",
        "late",
        "bits_per_second.bulk",
        "variable.limit",
        "idle_ratio",
    ] {
        assert!(some(column) > 0, "{column}");
    }
}

#[test]
fn claims_are_those_of_json() {
    let outcomes = outcomes();
    let batch = lab::claims(&outcomes);
    says_what_it_is(&batch);
    let lines = there_and_back(&[batch]);
    let names = [
        "id",
        "case",
        "metric",
        "unit",
        "published",
        "measured",
        "tolerance",
        "bound",
        "holds",
        "trivial",
        "trivial_model",
        "trivial_holds",
        "trivial_nearer",
        "missed",
        "seeds_held",
        "interval",
    ];
    let paths: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
    let columns: Vec<(&str, &str)> =
        names.iter().copied().zip(paths.iter().map(String::as_str)).collect();
    let mut count = 0;
    for outcome in &outcomes {
        let json = outcome.json();
        let own = lines
            .iter()
            .filter(|line| *get(line, "experiment") == Cell::Text(outcome.name.clone()));
        let (judged, shown): (Vec<_>, Vec<_>) =
            own.partition(|line| *get(line, "holds") != Cell::Null);
        for (lines, key) in [(judged, "claims"), (shown, "out_of_scope")] {
            let claims = json[key].as_array().expect("claims");
            assert_eq!(lines.len(), claims.len(), "{key}");
            for (line, claim) in lines.into_iter().zip(claims) {
                same(line, claim, &columns);
                for flag in ["weak", "fitted"] {
                    assert_eq!(*get(line, flag), Cell::Flag(claim[flag] == true));
                }
                let known = |key: &String| {
                    names.contains(&key.as_str()) || key == "weak" || key == "fitted"
                };
                assert!(claim.as_object().expect("a claim").keys().all(known), "{claim}");
                count += 1;
            }
        }
    }
    assert_eq!((count, lines.len()), (6, 6));
}

#[test]
fn distributions_are_those_of_the_rows() {
    let outcomes = outcomes();
    let batch = lab::distributions(&outcomes);
    says_what_it_is(&batch);
    let lines = there_and_back(&[batch]);
    let mut lines = lines.iter();
    for outcome in &outcomes {
        let json = outcome.json();
        for (row, json) in outcome.rows.iter().zip(json["rows"].as_array().expect("rows")) {
            let mut values = Vec::new();
            for &(_, longer) in &row.tail {
                let line = lines.next().expect("a line for each point");
                assert_eq!(*get(line, "experiment"), Cell::Text(outcome.name.clone()));
                assert_eq!(*get(line, "case"), Cell::Text(row.name.clone()));
                assert_eq!(*get(line, "longer_ratio"), Cell::Bits(longer.to_bits()));
                let Cell::Bits(bits) = get(line, "value_seconds") else { panic!("{line:?}") };
                values.push(f64::from_bits(*bits));
            }
            // The function begins and ends where JSON says that the distribution does, of one seed.
            if outcome.seeds == 1 && row.n > 0 {
                assert_eq!(json["min_seconds"].as_f64(), values.first().copied());
                assert_eq!(json["max_seconds"].as_f64(), values.last().copied());
            }
        }
    }
    assert!(lines.next().is_none());
}

#[test]
fn schedules_are_those_that_were_recorded() {
    let outcomes = outcomes();
    let batch = lab::schedules(&outcomes);
    says_what_it_is(&batch);
    let lines = there_and_back(&[batch]);
    let records = || {
        let recordings = outcomes.iter().flat_map(|outcome| outcome.recordings());
        recordings
            .flat_map(|recording| recording.records.iter().map(move |record| (recording, record)))
    };
    assert!(records().count() > 1000);
    assert_eq!(lines.len(), records().count());
    let mut notes = 0;
    for (line, (recording, record)) in lines.iter().zip(records()) {
        assert_eq!(*get(line, "experiment"), Cell::Text("vms".to_owned()));
        assert_eq!(*get(line, "case"), Cell::Text(recording.case.clone()));
        let seconds = record.time.as_ps() as f64 / 1e12;
        assert_eq!(*get(line, "time_seconds"), Cell::Bits(seconds.to_bits()));
        assert_eq!(*get(line, "pcpu"), Cell::Whole(record.pcpu.0.into()));
        let vcpu = recording.vcpus.get(record.vcpu.index());
        assert_eq!(*get(line, "vcpu"), vcpu.map_or(Cell::Null, |name| Cell::Text(name.clone())));
        let event = match record.what {
            What::Run => "run",
            What::Block => "block",
            What::Preempt => "preempt",
            What::Wake => "wake",
            What::Note(_) => "note",
        };
        assert_eq!(*get(line, "event"), Cell::Text(event.to_owned()));
        assert_eq!(*get(line, "note") == Cell::Null, event != "note");
        notes += usize::from(event == "note");
    }
    assert!(notes > 0);
}

#[test]
fn queues_are_those_that_were_watched() {
    let outcomes = outcomes();
    let batch = lab::queues(&outcomes);
    says_what_it_is(&batch);
    let lines = there_and_back(&[batch]);
    let mut lines = lines.iter();
    for track in outcomes.iter().flat_map(|outcome| &outcome.cases).flat_map(|case| &case.queues) {
        for (time, bytes) in &track.samples {
            let line = lines.next().expect("a line for each sample");
            assert_eq!(*get(line, "queue"), Cell::Text(track.name.clone()));
            let seconds = time.as_ps() as f64 / 1e12;
            assert_eq!(*get(line, "time_seconds"), Cell::Bits(seconds.to_bits()));
            assert_eq!(*get(line, "bytes"), Cell::Whole(*bytes));
        }
    }
    assert!(lines.next().is_none());
}

/// A figure that is no number is null in JSON, and here.
#[test]
fn what_is_no_number_is_null() {
    let mut outcome = run("vms", VMS, &RunOptions::default());
    outcome.rows[0].figures[0].1 = f64::NAN;
    outcome.rows[0].figures[1].1 = f64::INFINITY;
    let [first, second] = [0, 1].map(|i| format!("{}_seconds", outcome.rows[0].figures[i].0));
    let json = outcome.json();
    let lines = there_and_back(&[lab::rows(&[outcome])]);
    for key in [&first, &second] {
        assert!(json["rows"][0][key.as_str()].is_null(), "{json:#}");
        assert_eq!(*get(&lines[0], key), Cell::Null);
    }
}

#[test]
fn nothing_is_no_lines() {
    let of = [
        lab::rows(&[]),
        lab::claims(&[]),
        lab::distributions(&[]),
        lab::schedules(&[]),
        lab::queues(&[]),
        lab::completions(&[]),
    ];
    for batch in of {
        assert!(there_and_back(&[batch]).is_empty());
    }
}
