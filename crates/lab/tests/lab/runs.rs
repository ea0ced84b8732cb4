//! Runs: repeatable to the bit, whatever the number of threads; cases and rows.

use std::cell::RefCell;

use lowtail_lab::{Progress, RunOptions, json, run};

use crate::{SMALL, parse, run_with};

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
                vms = ['nap', 'hog']\nrows = ['nap', { vm = 'hog', of = 'wake_to_run' }]\n";
    let outcome = run_with(&format!("{SMALL}{case}"), 1);
    let names: Vec<&str> = outcome.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["c/nap", "c/hog/wake_to_run"]);
    assert_eq!(outcome.cases[0].vcpus, ["nap", "nap-2", "hog"]);
    assert!(!outcome.rows[0].complete && outcome.rows[1].complete);
    assert!((4.0..=12.0).contains(&(outcome.rows[0].n as f64)));
    assert!(outcome.table(false).contains("ended early: c/nap"));
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
    for key in
        ["n", "avg", "min", "p25", "p50", "p75", "p90", "p99", "p99_9", "max", "switches_per_s"]
    {
        assert!(row[key].is_number(), "{key}");
    }
    assert_eq!((row["case"].as_str(), row["unit"].as_str()), (Some("run/io"), Some("us")));
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
        assert_eq!(plain.rows[0].get("window_share.hog"), None);
        let watched = run_with(&text.replace("\"switches_per_s\"", "\"window_share.hog\""), 1);
        let share = watched.rows[0].get("window_share.hog").expect("asked for");
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
    let claim = "[[claim]]\nmetric = 'window_share.loop'\nat_least = 0.999\n";
    let vm = "[vm.loop]\nworkload = { kind = 'cpu-loop' }\n";
    let text = format!("{}{vm}{claim}", crate::SMALL).replace("\"10s\"", "\"90ms\"");
    let outcome = run_with(&text, 1);
    assert!(outcome.holds(), "{:?}", outcome.claims);
    assert!(outcome.rows[0].get("window_share.loop").is_some_and(|share| share <= 1.0));
}
