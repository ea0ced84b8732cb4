//! Runs: repeatable to the bit, whatever the number of threads; cases and rows.

use std::cell::RefCell;
use std::path::Path;

use lowtail_lab::{Progress, RunOptions, json, run};

use crate::{NET, SMALL, parse, run_with};

fn sweep() -> String {
    let case = "[[case]]\nname = '{busy} {what}'\nfor = { busy = [10, 50, 90], what = ['a', 'b'] }\n\
                set = { 'vm.hog.workload.busy_percent' = '{busy}' }\nrows = ['io']\n";
    format!("{SMALL}{case}")
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let text = |jobs| json(&[run_with(&sweep(), jobs)]).to_string();
    let one = text(1);
    assert_eq!(one, text(1));
    assert_eq!(one, text(2));
    assert_eq!(one, text(7));
}

#[test]
fn the_seed_matters_and_is_told() {
    let experiment = parse(SMALL).unwrap();
    let with = |seed| {
        let options = RunOptions { seed, ..RunOptions::default() };
        run(&experiment, &options, &|_| ()).unwrap()
    };
    assert_eq!((with(None).seed, with(Some(9)).seed), (3, 9));
    assert_ne!(with(None).rows, with(Some(9)).rows);
    assert_eq!(with(Some(9)).command, "lowtail lab run x.toml --seed 9");
}

#[test]
fn the_first_variable_varies_slowest() {
    let experiment = parse(&sweep()).unwrap();
    let names: Vec<&str> = experiment.cases(false).iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["10 a", "10 b", "50 a", "50 b", "90 a", "90 b"]);
    let seen = RefCell::new(Vec::new());
    run(&experiment, &RunOptions { jobs: 2, ..RunOptions::default() }, &|progress| {
        seen.borrow_mut().push(progress);
    })
    .unwrap();
    let expected: Vec<Progress> = (0..=6).map(|done| Progress { done, total: 6 }).collect();
    assert_eq!(seen.into_inner(), expected);
}

#[test]
fn several_vms_that_measure_make_several_rows() {
    let outcome = run_with(SMALL, 1);
    let names: Vec<&str> = outcome.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["run/io", "run/nap"]);
    assert_eq!((outcome.rows[0].n, outcome.rows[1].n), (500, 200));
    assert!(outcome.rows.iter().all(|row| row.complete));
    // With a limit of 1 ms and a sleep of 1 ms every turn but the first is late.
    assert_eq!(outcome.rows[1].get("late"), Some(199.0));
    assert_eq!(outcome.rows[1].get("late_per_600k"), Some(199.0 * 3000.0));
    assert_eq!(outcome.rows[0].get("late"), None);
}

#[test]
fn copies_rows_of_other_kinds_and_limits_of_time() {
    let case = "[[case]]\nname = 'c'\nset = { 'vm.nap.count' = 2, duration = '5ms' }\n\
                vms = ['nap', 'hog']\nrows = ['nap', { vm = 'hog', of = 'wakeup_latency' }]\n";
    let outcome = run_with(&format!("{SMALL}{case}"), 1);
    let names: Vec<&str> = outcome.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["c/nap", "c/hog/wakeup_latency"]);
    assert_eq!(outcome.cases[0].vcpus, ["nap", "nap-2", "hog"]);
    assert!(!outcome.rows[0].complete && outcome.rows[1].complete);
    assert!((4.0..=12.0).contains(&(outcome.rows[0].n as f64)));
    assert!(outcome.table(false).contains("before all was measured: c/nap"));
}

#[test]
fn full_and_recordings() {
    let text = format!("{SMALL}[full]\nset = {{ 'vm.io.workload.requests' = 900 }}\n");
    let experiment = parse(&text).unwrap();
    let options = RunOptions { full: true, record: 50, ..RunOptions::default() };
    let outcome = run(&experiment, &options, &|_| ()).unwrap();
    assert_eq!(outcome.row("run/io").unwrap().n, 900);
    assert!(outcome.command.ends_with("--seed 3 --full"));
    let recordings: Vec<_> = outcome.recordings().collect();
    assert_eq!((recordings.len(), recordings[0].records.len()), (1, 50));
    assert_eq!(recordings[0].vcpus, ["io", "nap", "hog"]);
    assert!(recordings[0].dropped > 0);
    assert_eq!(run(&experiment, &RunOptions::default(), &|_| ()).unwrap().recordings().count(), 0);
}

#[test]
fn json_has_the_promised_shape() {
    let claims = "[[published]]\ncase = 'run/io'\ntolerance = '10%'\np50 = 50\n\
                  out_of_scope = { max = 1 }\n";
    let value = json(&[run_with(&format!("{SMALL}{claims}"), 1)]);
    let experiment = &value["experiments"][0];
    assert_eq!((experiment["name"].as_str(), experiment["seed"].as_u64()), (Some("x"), Some(3)));
    let claim = &experiment["claims"][0];
    for key in ["id", "unit", "published", "measured", "tolerance", "holds"] {
        assert!(!claim[key].is_null(), "{key}");
    }
    assert_eq!(experiment["claims"].as_array().map(Vec::len), Some(1));
    assert_eq!(experiment["out_of_scope"][0]["holds"], serde_json::Value::Null);
    let row = experiment["rows"][0].as_object().unwrap();
    let percentiles = ["avg", "min", "p25", "p50", "p75", "p90", "p99", "p99_9", "max", "std_dev"];
    let seconds = percentiles.map(|name| format!("{name}_seconds"));
    for key in seconds.iter().map(String::as_str).chain(["count", "switches_per_second"]) {
        assert!(row[key].is_number(), "{key}: {row:?}");
    }
    assert_eq!(row["case"].as_str(), Some("run/io"));
}

/// Halves of the same round trips spread half as far, to the width of bins. The round trip has a jitter each way, so that they spread.
#[test]
fn halves_spread_half_as_far() {
    let case = "[[case]]\nname = '{half}'\nfor = { half = [true, false] }\nvms = ['io']\n\
                set = { 'vm.io.workload.half' = '{half}' }\n";
    let outcome = run_with(&format!("{SMALL}{case}"), 1);
    let figure = |row: usize, name: &str| outcome.rows[row].get(name).expect("measured");
    let (half_us, whole_us) = (figure(0, "std_dev"), figure(1, "std_dev"));
    let error_us =
        0.0005 * (figure(0, "avg").hypot(half_us) * 2.0 + figure(1, "avg").hypot(whole_us));
    assert!((2.0 * half_us - whole_us).abs() <= error_us + 0.003, "{half_us} {whole_us}");
    assert!(whole_us > 20.0 * error_us, "{whole_us} {error_us}");
    assert!(!outcome.table(false).contains("std_dev"));
}

/// A hog of 50 % works for 150 ms at a time on a pCPU of its own: some 100 ms lie within a
/// burst. One of 4 ms at a time has 48 ms of work or 52 in 100 ms, depending on where the window
/// begins: 12 whole cycles of 8 ms, and of the remaining 4 ms all or nothing.
#[test]
fn the_largest_share_of_any_100_ms() {
    for (burst, wanted) in [("150ms", 1.0), ("4ms", 0.52)] {
        let text = crate::SMALL
            .replace("burst = \"1ms\"", &format!("burst = \"{burst}\""))
            .replace("\"10s\"", "\"3s\"")
            .replace("wakeups = 200", "wakeups = 5000");
        let plain = run_with(&text, 1);
        assert_eq!(plain.rows[0].get("cpus_used_in_window.hog"), None);
        let watched =
            run_with(&text.replace("\"switches_per_second\"", "\"cpus_used_in_window.hog\""), 1);
        let share = watched.rows[0].get("cpus_used_in_window.hog").expect("asked for");
        // Half a step at most is lost by moving the window in steps of 1 ms, and a start after
        // sleep costs less than 20 us of each burst of work.
        assert!((wanted - 0.006..=wanted + 0.005).contains(&share), "{burst}: {share}");
        // Looking changes nothing that was there before.
        for (plain, watched) in plain.rows.iter().zip(&watched.rows) {
            for (name, figure) in &plain.figures {
                assert_eq!(Some(*figure), watched.get(name), "{burst}: {name}");
            }
            assert_eq!((plain.n, &plain.tail), (watched.n, &watched.tail));
        }
    }
}

/// A claim asks for windows too; a run that ends within the first is taken as a whole.
#[test]
fn a_short_run_is_one_window() {
    let claim = "[[claim]]\nmetric = 'cpus_used_in_window.loop'\nat_least = 0.999\n";
    let vm = "[vm.loop]\nworkload = { kind = 'cpu-loop' }\n";
    let text = format!("{}{vm}{claim}", crate::SMALL).replace("\"10s\"", "\"90ms\"");
    let outcome = run_with(&text, 1);
    assert!(outcome.holds(), "{:?}", outcome.claims);
    assert!(outcome.rows[0].get("cpus_used_in_window.loop").is_some_and(|share| share <= 1.0));
}

/// A datagram of 1400 bytes takes 66 more on the wire: two headers, and Ethernet's own.
#[test]
fn a_stream_fills_its_wire_and_a_ping_takes_twice_its_latency() {
    let outcome = run_with(NET, 1);
    assert_eq!(outcome.rows.len(), 1);
    let row = &outcome.rows[0];
    let get = |metric: &str| row.get(metric).unwrap_or_else(|| panic!("no {metric}"));
    let near = |metric: &str, wanted: f64| {
        let got = get(metric);
        assert!((got / wanted - 1.0).abs() < 0.01, "{metric}: {got}, not {wanted}");
    };
    // Two wires of 1 Gbit/s, a VM at each.
    near("mbit_per_second.sink", 2.0 * 1000.0 * 1400.0 / 1466.0);
    assert!((0.9999..=1.0).contains(&get("jain.sink")), "{}", get("jain.sink"));
    assert_eq!(get("lost_per_second.sink"), 0.0);
    // Each copy of a slot holds the lock for 1.81 us; those of the pings are few.
    near("lock_held_ratio.dom0", 2.0 * 1e9 / (8.0 * 1466.0) * 1.81e-6);
    // A ping of 56 bytes takes 122 bytes of time on the wire, there and back, and 30 us each
    // way; dom0, the guest and dom0 again add to that.
    let wire = 2.0 * (30.0 + 122.0 * 8.0 / 1000.0);
    assert_eq!((row.n, row.complete), (150, true));
    assert!(get("min") >= wire && get("p50") < 2.0 * wire, "{} {}", get("min"), get("p50"));
    // Figures of streams are only there for who has streams, those of locks for who has locks.
    assert_eq!(row.get("mbit_per_second.dom0"), None);
    assert_eq!(row.get("lock_held_ratio.sink"), None);
    assert!(row.get("process_cpus.dom0").is_some());
    assert!(row.get("lock_wait_cpus.dom0").is_some());
}

/// A stream between VMs counts where it arrives. One of two gets it all: Jain's index is a half.
#[test]
fn a_stream_between_vms_counts_where_it_arrives() {
    let text = NET
        .replacen("vm = \"sink\"", "vm = \"idle\"", 1)
        .replacen("way = { in = \"eth\" }", "way = { to = \"sink\" }", 1)
        .replacen("\"line\"", "{ window = 8 }", 1);
    let outcome = run_with(&text, 1);
    let get = |metric| outcome.rows[0].get(metric).expect("both ends have it");
    assert!(get("mbit_per_second.sink") > 100.0);
    assert!((get("jain.sink") - 0.5).abs() < 1e-9, "{}", get("jain.sink"));
    assert_eq!((get("mbit_per_second.idle"), get("jain.idle")), (0.0, 1.0));
    assert_eq!(get("lost_per_second.sink"), 0.0);
}

/// Without pings there is nothing to measure, and the run goes on to its end.
#[test]
fn streams_alone_run_to_the_end() {
    let case = "[[case]]\nname = 'c'\nvms = ['dom0', 'sink']\nset = { duration = '80ms' }\n";
    let row = run_with(&format!("{NET}{case}"), 1).rows.remove(0);
    assert_eq!((row.n, row.get("p50")), (0, None));
    assert!(row.get("simulated_seconds").is_some_and(|s| (0.0799..=0.08).contains(&s)));
    assert!(row.complete && row.get("mbit_per_second.sink").is_some_and(|rate| rate > 1890.0));
    assert_eq!(row.get("mbit_per_second.idle"), None);
}

#[test]
fn traffic_has_the_same_bits_for_any_number_of_threads() {
    let case = "[[case]]\nname = '{backend} {rate}'\n\
                for = { backend = ['tasklets', 'napi', 'small-first'], rate = ['1Gbit/s', '100Mbit/s'] }\n\
                set = { 'vm.dom0.workload.backend' = '{backend}', 'nic.eth.rate' = '{rate}', \
                'flow.ping.requests' = 40 }\n";
    let text = format!("{NET}{case}");
    let with = |jobs| json(&[run_with(&text, jobs)]).to_string();
    let one = with(1);
    assert!(one.contains("bits_per_second.sink"));
    assert_eq!(one, with(1));
    assert_eq!(one, with(2));
}

/// The first example of a chapter of the guide to scenario files.
fn example_of(chapter: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenario.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let chapter = guide.split(&format!("\n## {chapter}\n")).nth(1).expect("a chapter about it");
    let example = chapter.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    example.expect("an example").to_string()
}

/// The examples of the guide run as they stand.
#[test]
fn the_nics_and_flows_of_the_guide_run() {
    let outcome = run_with(&example_of("NICs and flows"), 2);
    assert_eq!(outcome.rows.len(), 3);
    for row in &outcome.rows {
        assert_eq!((row.n, row.complete), (100, true), "{}", row.name);
        assert!(row.get("mbit_per_second.web").is_some_and(|rate| rate > 100.0), "{}", row.name);
    }
}

#[test]
fn the_network_of_the_guide_runs() {
    let outcome = run_with(&example_of("Networks"), 2);
    assert_eq!(outcome.rows.len(), 3);
    for row in &outcome.rows {
        // A ping every 5 ms for 5 s; the stream fills its link but for slow start.
        assert!((990..=1000).contains(&row.n), "{}: {}", row.name, row.n);
        assert!(row.get("mbit_per_second.bulk").is_some_and(|rate| rate > 850.0), "{}", row.name);
    }
    let p50 = |name| outcome.row(name).and_then(|row| row.get("p50")).unwrap();
    assert!(p50("fq-codel") < p50("codel") && p50("codel") < p50("fifo"));
}
