//! Parquet files as others read them: pandas, Polars and DuckDB have what `--json` has, bit by bit.
//!
//! Needs a Python that has them, named in `LOWTAIL_PARQUET_PYTHON`; `make test` sees to it.

use serde_json::Value;

use crate::readers::{exact, is, python, read, rows};
use crate::{Place, TINY, capture};

#[test]
fn experiments_are_read_as_json_has_them() {
    let Some(python) = python() else { return };
    let place = Place::new();
    // Two files with other VMs: each has columns that the other one has not.
    let other = TINY.replace("[vm.nap]", "[vm.doze]").replace("a/nap", "a/doze");
    let other = other.replace("Tiny scenario", "\u{dc}n\u{ef}c\u{f6}de \u{201c}|\u{201d}");
    place.write("tiny.toml", TINY).write("other.toml", other);
    let line = "lab run tiny.toml other.toml --no-report --json --seeds 2 --parquet out/tables --schedules";
    let ran = place.line(line);
    ran.expect(0, &["tables as Parquet files: out/tables"]);
    let [json] = &exact(&python, &ran.out)[..] else { panic!("{}", ran.out) };
    let names = ["rows", "claims", "distributions", "schedules", "queues", "completions"];
    let mut files = names.map(|name| format!("{name}.parquet"));
    let places = files.clone().map(|name| place.path("out/tables").join(name));
    files.sort();
    assert_eq!(crate::names(&place.path("out/tables")), files);
    let tables = read(&python, &places);
    let (mut own, mut claims) = (rows(&tables[0]).iter(), rows(&tables[1]).iter());
    let mut figures = 0;
    for experiment in json["experiments"].as_array().expect("experiments") {
        for row in experiment["rows"].as_array().expect("rows") {
            let read = own.next().expect("a row");
            assert!(is(&read["experiment"], &experiment["name"]));
            for (key, value) in row.as_object().expect("a row") {
                let Value::Object(intervals) = value else {
                    assert!(is(&read[key], value), "{key}: {} {value}", read[key]);
                    figures += 1;
                    continue;
                };
                for (key, value) in intervals {
                    let read = &read[format!("interval.{key}")];
                    assert!(is(read, value), "{key}: {read} {value}");
                    figures += 1;
                }
            }
        }
        for claim in experiment["claims"].as_array().expect("claims") {
            let read = claims.next().expect("a claim");
            for (key, value) in claim.as_object().expect("a claim") {
                assert!(is(&read[key], value), "{key}: {} {value}", read[key]);
            }
        }
    }
    assert!(own.next().is_none() && claims.next().is_none());
    assert!(figures > 150, "{figures}");
    let counts: Vec<usize> = tables.iter().map(|table| rows(table).len()).collect();
    assert!(counts[2] > 100 && counts[3] > 1000, "{counts:?}");
    assert_eq!(counts[4..], [0, 0]);
    // What columns mean reaches who reads the schema.
    let said = &tables[0]["metadata"]["p99_seconds"];
    assert_eq!(said["unit"], "s");
    assert_eq!(said["description"], "99 % of values are at most this.");
    println!("{figures} figures of experiments by three readers, rows of tables: {counts:?}");
}

#[test]
fn traces_are_read_as_json_has_them() {
    let Some(python) = python() else { return };
    let place = Place::new();
    let capture = capture();
    let capture = capture.to_str().expect("a path");
    let exported = place.run(["trace", "export", capture, "--parquet", "out", "--json"]);
    let exported = exported.expect(0, &[]).json();
    assert_eq!(exported["directory"], "out");
    let latency = place.run(["trace", "latency", capture, "--json"]);
    let latency = &exact(&python, &latency.expect(0, &[]).out)[0];
    let listed = exported["tables"].as_array().expect("tables");
    let path = |table: &Value| {
        place.path("out").join(format!("{}.parquet", table["name"].as_str().expect("a name")))
    };
    let tables = read(&python, &listed.iter().map(path).collect::<Vec<_>>());
    for (table, listed) in tables.iter().zip(listed) {
        assert_eq!(rows(table).len() as u64, listed["rows"], "{listed}");
    }
    let table = |name: &str| {
        let number = listed.iter().position(|table| table["name"] == name).expect(name);
        rows(&tables[number])
    };
    let vcpus = latency["vcpus"].as_array().expect("vCPUs");
    assert_eq!(table("latency").len(), vcpus.len());
    for (read, vcpu) in table("latency").iter().zip(vcpus) {
        for (column, value) in [
            ("vcpu", &vcpu["vcpu"]),
            ("cpu_ratio", &vcpu["cpu_ratio"]),
            ("wakeups", &vcpu["wakeups"]),
            ("wakeup_latency_p99_seconds", &vcpu["wakeup_latency"]["p99_seconds"]),
            ("preemption_latency_max_seconds", &vcpu["preemption_latency"]["max_seconds"]),
            ("run_length_count", &vcpu["run_length"]["count"]),
        ] {
            assert!(is(&read[column], value), "{column}: {} {value}", read[column]);
        }
    }
    assert!(table("events").len() > 1000, "{}", table("events").len());
    println!("rows of tables: {}", exported["tables"]);
}

/// Both at once, and each alone; without either it is not known what is wanted.
#[test]
fn a_trace_in_both_formats() {
    let place = Place::new();
    let capture = capture();
    let capture = capture.to_str().expect("a path");
    let args = ["trace", "export", capture, "--parquet", "out", "--perfetto", "x.pftrace"];
    let ran = place.run(args);
    ran.expect(0, &[]);
    assert!(ran.out.contains("open it at ui.perfetto.dev\ntables: out\n"), "{}", ran.out);
    assert_eq!(place.names(), ["out", "x.pftrace"]);
    place.run(["trace", "export", capture]).expect(2, &["--perfetto <FILE>"]);
}

#[test]
fn what_cannot_be_written_is_told_before_the_work() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("file", "");
    let capture = capture();
    let capture = capture.to_str().expect("a path");
    for to in ["file", "file/below"] {
        let ran = place.line(&format!("lab run tiny.toml --no-report --parquet {to}"));
        ran.expect(4, &[&format!("error: {to}: ")]);
        assert_eq!(ran.out, "");
        place
            .run(["trace", "export", capture, "--parquet", to])
            .expect(4, &[&format!("error: {to}: ")]);
    }
    for (line, words) in [
        ("lab run tiny.toml --schedules", "--parquet <DIR>"),
        ("lab run tiny.toml --parquet out --on kernel", "--parquet is for the simulator"),
        ("host observe --parquet-keep 5GB", "--parquet <DIR>"),
        ("host observe --parquet out --parquet-keep 5", "a size such as 500MB, 2GB or 1GiB"),
        ("host observe --parquet out --parquet-keep 5kB", "a megabyte (1MB) at least"),
    ] {
        place.line(line).expect(2, &[words]);
    }
    assert_eq!(place.names(), ["file", "tiny.toml"]);
}
