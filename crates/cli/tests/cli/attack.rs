//! The search for attacks: what it prints can be run again, and comes out the same.

use serde_json::Value;

use crate::Place;

/// Every scenario that is saved is the one that is printed, and running it gives the figures
/// that the search has reported.
#[test]
fn findings_can_be_run_again() {
    let place = Place::new();
    let ran = place.line("lab attack --seed 3 --budget 4 --json --save new/found");
    let found = ran.expect(0, &["scenarios: new/found"]).json();
    assert_eq!((found["seed"].as_u64(), found["budget"].as_u64()), (Some(3), Some(4)));
    assert_eq!(found["command"], "lowtail lab attack --seed 3 --budget 4");
    let worst = found["worst"].as_array().unwrap();
    let measures: Vec<&Value> = worst.iter().map(|finding| &finding["measure"]).collect();
    assert_eq!(measures, ["share", "window", "gain", "loss", "tail", "quiet_tail"]);
    for finding in worst {
        let file = format!("new/found/{}", finding["file"].as_str().unwrap());
        let text = std::fs::read_to_string(place.path(&file)).unwrap();
        assert_eq!(text, finding["scenario"].as_str().unwrap());
        let again = place.line(&format!("lab run {file} --no-report --json"));
        let rows = &again.expect(0, &[]).json()["experiments"][0]["rows"];
        let cases = [&rows[0]["case"], &rows[1]["case"], &rows[2]["case"]];
        assert_eq!(cases, ["attack", "honest", "same use"]);
        let metric = match finding["measure"].as_str().unwrap() {
            "tail" | "quiet_tail" => "p99_9_seconds".to_string(),
            "window" => format!("cpus_used_in_window.{}", finding["vm"].as_str().unwrap()),
            _ => format!("cpus_used.{}", finding["vm"].as_str().unwrap()),
        };
        assert_eq!(rows[0][&metric], finding["figure"], "{finding:#}");
        assert_eq!(rows[1][&metric], finding["honest"], "{finding:#}");
        if metric.starts_with("p99") {
            assert_eq!(rows[2][&metric], finding["reference"], "{finding:#}");
        }
        let figure = |key: &str| finding[key].as_f64().unwrap();
        let ratio = figure("figure") / figure("reference");
        let ratio = if finding["measure"] == "loss" { 1.0 / ratio } else { ratio };
        assert!((figure("ratio") / ratio - 1.0).abs() < 1e-9, "{finding:#}");
    }
}

/// The printed command finds the same, whatever the number of threads; another seed does not.
#[test]
fn a_search_says_how_to_repeat_it() {
    let place = Place::new();
    let first = place.line("lab attack --scheduler credit --seed 3 --budget 3 --jobs 1");
    let lines = first.expect(0, &[]).out.lines();
    let last = lines.last().unwrap().trim();
    let start = format!("lowtail {}: lowtail ", env!("CARGO_PKG_VERSION"));
    let command = last.strip_prefix(&start).unwrap();
    assert_eq!(command, "lab attack --scheduler credit --seed 3 --budget 3");
    assert_eq!(place.line(&format!("{command} --jobs 2")).out, first.out);
    assert!(first.out.contains("\n# attack-3-"), "scenarios are printed: {}", first.out);
    let other = place.line("lab attack --scheduler credit --seed 4 --budget 3");
    assert_ne!(other.expect(0, &[]).out, first.out);
    assert!(place.names().is_empty(), "nothing is written unasked");
}

/// The same of an uplink: each scenario gives the figures that the search has reported.
#[test]
fn hostile_flows_can_be_run_again() {
    let place = Place::new();
    let ran = place.line("lab attack --queue all --seed 3 --budget 4 --json --save found");
    let found = ran.expect(0, &["scenarios: found"]).json();
    assert_eq!(found["command"], "lowtail lab attack --queue all --seed 3 --budget 4");
    let worst = found["worst"].as_array().unwrap();
    let measures: Vec<&Value> = worst.iter().map(|finding| &finding["measure"]).collect();
    assert_eq!(measures, ["rate_gain", "rate_loss", "flow_tail"]);
    for finding in worst {
        let again = place.line(&format!(
            "lab run found/{} --no-report --json",
            finding["file"].as_str().unwrap()
        ));
        let rows = &again.expect(0, &[]).json()["experiments"][0]["rows"];
        assert_eq!([&rows[0]["case"], &rows[1]["case"]], ["attack", "honest"]);
        let metric = match finding["measure"].as_str().unwrap() {
            "flow_tail" => "p99_9_seconds".to_string(),
            _ => format!("bits_per_second.{}", finding["vm"].as_str().unwrap()),
        };
        assert_eq!(rows[0][&metric], finding["figure"], "{finding:#}");
        assert_eq!(rows[1][&metric], finding["reference"], "{finding:#}");
    }
}

/// Only the queueing disciplines that were asked for are attacked; others are refused by name.
#[test]
fn one_queue_at_a_time() {
    let ran = Place::new().line("lab attack --queue fq-codel --budget 3 --json");
    for finding in ran.expect(0, &[]).json()["worst"].as_array().unwrap() {
        assert_eq!(finding["queue"], "fq-codel");
    }
    let ran = Place::new().line("lab attack --queue fq-kodel --budget 3");
    ran.expect(2, &["did you mean `fq-codel`?"]);
}

/// Only the schedulers that were asked for are attacked.
#[test]
fn one_scheduler_at_a_time() {
    let ran = Place::new().line("lab attack --scheduler credit2-4.10 --budget 5 --json");
    for finding in ran.expect(0, &[]).json()["worst"].as_array().unwrap() {
        assert_eq!(finding["scheduler"], "credit2-4.10");
    }
}
