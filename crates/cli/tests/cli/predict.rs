//! `lowtail predict`, on the recording of the documentation.

use std::fs;

use serde_json::Value;

use crate::tree::root;
use crate::{Place, Ran};

/// Runs it with these arguments, in a place that has these files.
fn run(files: &[(&str, &[u8])], args: &[&str]) -> Ran {
    let place = Place::new();
    for (name, content) in files {
        fs::write(place.path(name), content).unwrap();
    }
    let recording = root().join("crates/predict/data/web-batch.ltr");
    let args = args.iter().copied();
    place.run(["predict", recording.to_str().unwrap()].into_iter().chain(args))
}

fn vm<'a>(prediction: &'a Value, name: &str) -> &'a Value {
    let mut vms = prediction["vms"].as_array().unwrap().iter();
    vms.find(|vm| vm["name"] == name).unwrap_or_else(|| panic!("{name}: {prediction}"))
}

/// The middle of the predicted 99th percentiles, in seconds.
fn p99(vm: &Value) -> f64 {
    vm["predicted"]["p99_seconds"]["median"].as_f64().unwrap()
}

/// The server waits less under small-first, or if the batch VM has less weight; more beside a second batch VM.
#[test]
fn changes_go_where_they_should() {
    let as_it_was = run(&[], &["--json"]).expect(0, &[]).json();
    assert_eq!(as_it_was["grade"]["grade"], "good");
    let web = vm(&as_it_was, "web");
    assert!(web["predicted"].is_null(), "nothing was changed: {web}");
    let recorded = web["recorded"]["p99_seconds"].as_f64().unwrap();
    let replayed = web["replayed"]["p99_seconds"]["median"].as_f64().unwrap();
    assert!((replayed / recorded - 1.0).abs() < 0.25, "{web}");

    let small_first = run(&[], &["--json", "--scheduler", "small-first"]).expect(0, &[]).json();
    assert!(p99(vm(&small_first, "web")) < 0.5 * replayed, "{small_first}");

    let policy = "scheduler = \"fair\"\n[[vm]]\nname = \"batch\"\nweight = 5\n";
    let files = [("policy.toml", policy.as_bytes())];
    let weight = run(&files, &["--json", "--policy", "policy.toml"]).expect(0, &[]).json();
    assert!(p99(vm(&weight, "web")) < 0.8 * replayed, "{weight}");

    let more = run(&[], &["--json", "--add", "batch=1"]).expect(1, &[]).json();
    let worse = more["worse"][0].as_str().unwrap();
    assert!(worse.starts_with("web: wake-up p99 from "), "{worse}");
    assert!(p99(vm(&more, "web")) > 1.1 * replayed, "{more}");
    // Two that compute share what is left.
    let cpu = |name| vm(&more, name)["predicted"]["cpu_ratio"]["median"].as_f64().unwrap();
    assert!((cpu("batch") - cpu("batch+1")).abs() < 0.02, "{more}");

    let without = run(&[], &["--json", "--without", "batch"]).expect(0, &[]).json();
    assert!(vm(&without, "batch")["predicted"].is_null());
    assert!(p99(vm(&without, "web")) < 0.5 * replayed, "{without}");

    // Four threads that compute have four CPUs.
    let cpus = run(&[], &["--json", "--cpus", "6"]).expect(0, &[]).json();
    let batch = vm(&cpus, "batch")["predicted"]["cpu_ratio"]["median"].as_f64().unwrap();
    assert!((3.9..=4.0).contains(&batch), "{cpus}");
}

#[test]
fn what_is_wrong_is_named() {
    run(&[], &["--without", "wbe"]).expect(2, &["no VM `wbe`", "web, mail, batch"]);
    run(&[], &["--add", "web"]).expect(2, &["a VM and a number"]);
    run(&[], &["--pin", "web=9-3"]).expect(2, &["web=0-3,8"]);
    run(&[], &["--scheduler", "bfs"]).expect(2, &["small-first"]);
    let files = [("policy.toml", &b"[[vm]]\nname = \"web\"\nweigth = 3\n"[..])];
    run(&files, &["--policy", "policy.toml"]).expect(3, &["policy.toml:3:1", "weight"]);
    let xen = crate::capture();
    let place = Place::new();
    place.run(["predict", xen.to_str().unwrap()]).expect(3, &["Xen", "Linux"]);
}
