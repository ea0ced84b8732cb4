//! What `--json` prints: the promised keys, types and units, and nothing else around it.

use serde_json::Value;

use crate::{Place, TINY, capture, tiny_short};

/// Whether a value is of some type.
type Is = fn(&Value) -> bool;

/// Checks the type of each of the keys.
fn keys(value: &Value, keys: &[(&str, Is)]) {
    for (key, is) in keys {
        let entry = value.get(key).unwrap_or_else(|| panic!("no `{key}` in {value:#}"));
        assert!(is(entry), "`{key}` in {value:#}");
    }
}

fn number_or_null(value: &Value) -> bool {
    value.is_number() || value.is_null()
}

/// Checks an experiment of `lab run --json`.
pub(crate) fn experiment(value: &Value) {
    let list: Is = Value::is_array;
    keys(
        value,
        &[("name", Value::is_string), ("seed", Value::is_u64), ("claims", list), ("rows", list)],
    );
    for claim in value["claims"].as_array().unwrap() {
        keys(
            claim,
            &[
                ("id", Value::is_string),
                ("unit", Value::is_string),
                ("published", number_or_null),
                ("measured", number_or_null),
                ("tolerance", Value::is_string),
                ("holds", Value::is_boolean),
            ],
        );
    }
    for row in value["rows"].as_array().unwrap() {
        keys(row, &[("case", Value::is_string), ("count", Value::is_u64)]);
        keys(row, &[("avg_seconds", number_or_null)]);
        ascending(row, &["min", "p25", "p50", "p75", "p90", "p99", "p99_9", "max"]);
        // Other metrics stand under their own keys.
        keys(
            row,
            &[("switches_per_second", Value::is_number), ("simulated_seconds", Value::is_number)],
        );
    }
}

/// Percentiles rise; those of nothing are null.
fn ascending(value: &Value, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|name| format!("{name}_seconds")).collect();
    names.iter().for_each(|name| keys(value, &[(name, number_or_null)]));
    let figures: Vec<f64> = names.iter().filter_map(|name| value[name].as_f64()).collect();
    assert!(figures.is_sorted(), "{value:#}");
    let wanted = if value["count"] == 0 { 0 } else { names.len() };
    assert_eq!(figures.len(), wanted, "{value:#}");
}

#[test]
fn lab_run() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("short.toml", tiny_short());
    let ran = place.line("lab run tiny.toml short.toml --json");
    // The report is still written, and told where it does not get into the JSON.
    ran.expect(1, &[]);
    assert_eq!(ran.err, "report: lowtail-report.html\n");
    let value = ran.json();
    assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["experiments"]);
    let experiments = value["experiments"].as_array().unwrap();
    experiments.iter().for_each(experiment);
    let (tiny, short) = (&experiments[0], &experiments[1]);
    assert_eq!((&tiny["name"], &short["name"]), (&"tiny".into(), &"short".into()));
    assert_eq!(
        (&tiny["claims"][0]["holds"], &short["claims"][0]["holds"]),
        (&true.into(), &false.into())
    );
    // As the file orders it: 500 requests, 200 wake-ups.
    let rows = tiny["rows"].as_array().unwrap();
    let figures: Vec<_> =
        rows.iter().map(|row| (row["case"].as_str(), row["count"].as_u64())).collect();
    assert_eq!(figures, [(Some("a/io"), Some(500)), (Some("a/nap"), Some(200))]);
    // A request cannot be answered sooner than after its path of 20 us and its work of 5 us.
    assert!(rows[0]["min_seconds"].as_f64().unwrap() > 25e-6, "{}", rows[0]);
}

/// Whatever unit a file has, JSON has seconds.
#[test]
fn units() {
    let place = Place::new();
    let ms = format!("unit = \"ms\"\n{TINY}").replace("at_most = 1000", "at_most = 1");
    place.write("us.toml", TINY).write("ms.toml", ms);
    let value = place.line("lab run us.toml ms.toml --json --no-report").expect(0, &[]).json();
    let row = |i: usize| &value["experiments"][i]["rows"][0];
    assert_eq!(row(0)["p50_seconds"], row(1)["p50_seconds"]);
    // A request cannot be answered sooner than after its path of 20 us and its work of 5 us, and hardly later here.
    let p50_s = row(0)["p50_seconds"].as_f64().unwrap();
    assert!((25e-6..1e-3).contains(&p50_s), "{p50_s} s");
}

#[test]
fn lab_list_and_show() {
    let place = Place::new();
    let list = place.line("lab list --json").expect(0, &[]).json();
    let experiments = list["experiments"].as_array().unwrap();
    assert!(experiments.iter().any(|experiment| experiment["name"] == "credit2-ratelimit"));
    for entry in experiments {
        let text: Is = Value::is_string;
        keys(entry, &[("name", text), ("title", text), ("cases", Value::is_u64)]);
        let name = entry["name"].as_str().unwrap();
        let shown = place.run(["lab", "show", name, "--json"]).expect(0, &[]).json();
        keys(&shown, &[("source", text), ("notes", text), ("seed", Value::is_u64)]);
        assert_eq!((&shown["name"], &shown["title"]), (&entry["name"], &entry["title"]));
        let cases = shown["cases"].as_array().unwrap();
        assert_eq!(cases.len() as u64, entry["cases"].as_u64().unwrap());
        cases.iter().for_each(|case| keys(case, &[("case", text), ("scheduler", text)]));
        assert!(shown["claims"].is_array());
        // The file itself is a scenario, and the same one.
        let toml = place.run(["lab", "show", name, "--toml"]).expect(0, &[]).out.clone();
        place.write("own.toml", toml);
        assert_eq!(place.line("lab show own.toml --json").json(), shown);
    }
    let schema = place.line("lab schema").expect(0, &[]).json();
    assert!(schema["properties"]["vm"].is_object());
}

#[test]
fn claims_shown_are_those_judged() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    let shown = place.line("lab show tiny.toml --json").json();
    let judged = place.line("lab run tiny.toml --json --no-report").json();
    let judged = judged["experiments"][0]["claims"].as_array().unwrap();
    let ids: Vec<Value> = judged.iter().map(|claim| claim["id"].clone()).collect();
    assert_eq!(shown["claims"], Value::from(ids));
}

#[test]
fn trace_info() {
    let file = capture();
    let ran = Place::new().run(["trace", "info", "--json", file.to_str().unwrap()]);
    let value = ran.expect(0, &[]).json();
    assert_eq!(ran.err, "");
    let list: Is = Value::is_array;
    keys(
        &value,
        &[
            ("span_seconds", Value::is_f64),
            ("cpu_hz", Value::is_u64),
            ("pcpus", list),
            ("domains", list),
            ("classes", list),
            ("lost", Value::is_object),
        ],
    );
    // What the README beside the capture says of it.
    assert_eq!((&value["records"], &value["bytes"]), (&17740.into(), &398_844.into()));
    assert_eq!(value["cpu_hz"], 1_000_000_000);
    assert_eq!(value["pcpus"].as_array().unwrap().len(), 2);
    let domains = value["domains"].as_array().unwrap();
    let vcpus: Vec<&str> =
        domains.iter().map(|domain| domain["vcpus"][0].as_str().unwrap()).collect();
    assert_eq!(vcpus, ["d0v0", "d1v0", "d2v0"]);
    assert_eq!(value["lost"]["times"], 2);
}

#[test]
fn trace_latency() {
    let file = capture();
    let ran = Place::new().run(["trace", "latency", "--json", file.to_str().unwrap()]);
    let value = ran.expect(0, &[]).json();
    keys(&value, &[("span_seconds", Value::is_f64), ("cpu_hz", Value::is_u64)]);
    for vcpu in value["vcpus"].as_array().unwrap() {
        keys(
            vcpu,
            &[
                ("vcpu", Value::is_string),
                ("cpu_ratio", Value::is_f64),
                ("switches_per_second", Value::is_number),
                ("blame", Value::is_array),
            ],
        );
        for name in ["wakeup_latency", "preemption_latency", "run_length"] {
            let distribution = &vcpu[name];
            keys(distribution, &[("count", Value::is_u64)]);
            ascending(distribution, &["min", "p50", "p90", "p99", "p99_9", "max"]);
        }
        let blame = vcpu["blame"].as_array().unwrap();
        let shares = blame.iter().map(|blame| {
            let text: Is = Value::is_string;
            keys(blame, &[("vcpu", text), ("ratio", Value::is_number), ("reason", text)]);
            blame["ratio"].as_f64().unwrap()
        });
        // Somebody is to blame for all of the waiting.
        let sum: f64 = shares.sum();
        assert!(blame.is_empty() || (sum - 1.0).abs() < 1e-9, "{sum}");
    }
}
