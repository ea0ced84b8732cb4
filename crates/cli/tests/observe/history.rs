//! The history of `host observe --parquet`, as others read it, beside what `--json` says of the same intervals.

use std::path::PathBuf;

use serde_json::Value;

use crate::readers::{exact, is, number, python, read, rows};
use crate::{kernel, lowtail, standin};

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().expect("a list")
}

#[test]
fn a_history_has_what_json_has() {
    let Some(_kernel) = kernel() else { return };
    let Some(python) = python() else { return };
    let _server = standin("--name web --do serve --every 2000 --work 300".to_string());
    let _batch = standin("--name batch --vcpus 4 --do burn".to_string());
    let dir = tempfile::tempdir().expect("a directory");
    let kept = dir.path().join("history");
    let path = kept.to_str().expect("a path");
    let mut command = lowtail(None);
    command.args(["host", "observe", "--json", "--interval", "200ms", "--duration", "3s"]);
    command.args(["--parquet", path, "--parquet-every", "700ms", "web", "batch"]);
    let ran = command.output().expect("it starts");
    let (printed, said) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.is_empty(), "{said}");
    let intervals = exact(&python, &printed);
    assert!(intervals.len() >= 5, "{} intervals", intervals.len());
    let names = ["intervals", "vms", "threads", "blame", "findings", "causes"];
    let tables = read(&python, &names.map(|name| kept.join(name)));
    // Several files of each, so that readers had some before the end.
    let files = |name: &str| std::fs::read_dir(kept.join(name)).expect("a directory").count();
    assert!(files("vms") >= 2, "{} files", files("vms"));
    let [mut told, mut vms, mut threads, mut blames, mut findings, mut causes] =
        [0, 1, 2, 3, 4, 5].map(|number| rows(&tables[number]).iter());
    let mut figures = 0;
    let mut same = |read: &Value, json: &Value, columns: &[(&str, &str)]| {
        for (column, path) in columns {
            let value = json.pointer(path).unwrap_or(&Value::Null);
            assert!(is(&read[column], value), "{column}: {} {value}", read[column]);
            figures += 1;
        }
    };
    for interval in &intervals {
        let read = told.next().expect("an interval");
        same(
            read,
            interval,
            &[("interval_seconds", "/interval_seconds"), ("lost_waits", "/lost/waits")],
        );
        let unix_ms = number(&interval["timestamp_seconds"]).expect("a time") * 1e3;
        assert_eq!(read["timestamp"].as_f64(), Some(unix_ms.round()));
        for vm in list(interval, "vms") {
            let read = vms.next().expect("a VM");
            same(
                read,
                vm,
                &[("vm", "/name"), ("pid", "/pid"), ("kind", "/kind"), ("found_by", "/found_by")],
            );
            for thread in list(vm, "threads") {
                let read = threads.next().expect("a thread");
                same(
                    read,
                    thread,
                    &[
                        ("tid", "/tid"),
                        ("role", "/role"),
                        ("run_time_seconds", "/run_time_seconds"),
                        ("ready_after_wakeup_seconds", "/ready_after_wakeup_seconds"),
                        ("wakeup_latency_count", "/wakeup_latency/count"),
                        ("wakeup_latency_p99_seconds", "/wakeup_latency/p99_seconds"),
                        ("preemption_latency_max_seconds", "/preemption_latency/max_seconds"),
                    ],
                );
                for blame in list(thread, "blame") {
                    let read = blames.next().expect("blame");
                    same(read, blame, &[("ready_seconds", "/ready_seconds")]);
                }
            }
        }
        for finding in list(interval, "findings") {
            let read = findings.next().expect("a finding");
            same(
                read,
                finding,
                &[
                    ("vm", "/vm"),
                    ("symptom", "/symptom"),
                    ("value", "/value"),
                    ("duration_seconds", "/duration_seconds"),
                ],
            );
            for cause in list(finding, "causes") {
                let read = causes.next().expect("a cause");
                same(read, cause, &[("ratio", "/ratio")]);
            }
        }
    }
    for rest in [told, vms, threads, blames, findings, causes] {
        assert_eq!(rest.count(), 0, "lines that JSON does not have");
    }
    let all: Vec<PathBuf> = names.map(|name| kept.join(name)).to_vec();
    println!(
        "{} intervals, {figures} figures by three readers, {} files of a table, tables {:?}",
        intervals.len(),
        files("vms"),
        all.iter().map(|dir| dir.file_name().unwrap_or_default()).collect::<Vec<_>>()
    );
}

/// A directory that cannot be had is told before anything is loaded.
#[test]
fn no_place_for_a_history_is_told_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("file"), "").expect("a file");
    let mut command = lowtail(None);
    command
        .args(["host", "observe", "--once", "--parquet", "file/history"])
        .current_dir(dir.path());
    let ran = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(4), "{said}");
    assert!(said.starts_with("error: file/history: "), "{said}");
}
