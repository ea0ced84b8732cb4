//! Recorded schedules.

use std::fs::File;

use lowtail_arrow::trace;
use lowtail_trace::{Latency, Options};
use serde_json::Value;

use crate::{Cell, Line, get, is, same, says_what_it_is, there_and_back};

/// A recording of a real Xen, and one of a Linux host.
const FILES: [&str; 2] =
    ["../trace/data/credit2-4.20-ratelimit1000.bin", "../predict/data/web-batch.ltr"];

fn latency(path: &str) -> (Latency, Value) {
    let file = File::open(path).expect("it is in the tree");
    let latency = lowtail_trace::latency(file, &Options::default()).expect("a trace");
    let json = serde_json::to_value(&latency).expect("JSON");
    (latency, json)
}

/// What is in an object, with the names of objects in it before those of their fields.
fn flat(value: &Value, prefix: &str, into: &mut Vec<(String, Value)>) {
    for (key, value) in value.as_object().expect("an object") {
        match (value, key.as_str()) {
            (Value::Array(_), _) => {}
            // Those in which names are clear without what they are in.
            (Value::Object(_), "thread" | "paused") => flat(value, "", into),
            (Value::Object(_), _) => flat(value, &format!("{key}_"), into),
            _ => into.push((format!("{prefix}{key}"), value.clone())),
        }
    }
}

#[test]
fn latency_is_that_of_json() {
    for path in FILES {
        let (latency, json) = latency(path);
        let batch = trace::latency(&latency);
        says_what_it_is(&batch);
        let lines = there_and_back(&[batch]);
        let vcpus = json["vcpus"].as_array().expect("vCPUs");
        assert_eq!(lines.len(), vcpus.len());
        for (line, vcpu) in lines.iter().zip(vcpus) {
            let mut fields = Vec::new();
            flat(vcpu, "", &mut fields);
            assert!(fields.len() >= 50, "{}", fields.len());
            for (key, value) in &fields {
                assert!(is(get(line, key), value), "{key}: {:?}, {value}", get(line, key));
            }
            // What JSON leaves out is null.
            let there = |name: &String| fields.iter().any(|(key, _)| key == name);
            let others = line.iter().filter(|(name, _)| !there(name));
            others.for_each(|(name, cell)| assert_eq!(*cell, Cell::Null, "{name}"));
        }
    }
}

#[test]
fn blame_and_pcpus_are_those_of_json() {
    for path in FILES {
        let (latency, json) = latency(path);
        let (blame, siblings) = (trace::blame(&latency), trace::smt_siblings(&latency));
        let pcpus = trace::pcpus(&latency);
        [&blame, &siblings, &pcpus].into_iter().for_each(says_what_it_is);
        let mut lines = there_and_back(&[blame]).into_iter();
        for vcpu in json["vcpus"].as_array().expect("vCPUs") {
            for blame in vcpu["blame"].as_array().expect("blame") {
                let line = lines.next().expect("a line for each");
                same(&line, vcpu, &[("vcpu", "/vcpu")]);
                let columns = [
                    ("runner", "/vcpu"),
                    ("reason", "/reason"),
                    ("ratio", "/ratio"),
                    ("ready_seconds", "/ready_seconds"),
                ];
                same(&line, blame, &columns);
            }
        }
        assert!(lines.next().is_none());
        let lines: Vec<Line> = there_and_back(&[pcpus]);
        let all = json["pcpus"].as_array().expect("pCPUs");
        assert_eq!(lines.len(), all.len());
        for (line, pcpu) in lines.iter().zip(all) {
            let columns = [
                ("pcpu", "/pcpu"),
                ("busy_ratio", "/busy_ratio"),
                ("idle_ratio", "/idle_ratio"),
                ("switches_per_second", "/switches_per_second"),
            ];
            same(line, pcpu, &columns);
        }
    }
}

#[test]
fn events_are_all_in_order() {
    for path in FILES {
        let file = || File::open(path).expect("it is in the tree");
        let mut batches = Vec::new();
        let keep = |batch| {
            batches.push(batch);
            Ok(())
        };
        let (host, tids) = trace::events(file(), &Options::default(), keep).expect("a trace");
        batches.iter().for_each(says_what_it_is);
        let lines = there_and_back(&batches);
        let mut at = 0;
        let mut first = None;
        let counted = lowtail_trace::events::events(file(), &Options::default(), |event, _| {
            let first = *first.get_or_insert(event.at_ns);
            let seconds = (event.at_ns - first) as f64 / 1e9;
            assert_eq!(*get(&lines[at], "time_seconds"), Cell::Bits(seconds.to_bits()));
            assert_eq!(*get(&lines[at], "cpu"), Cell::Whole(event.cpu.into()));
            at += 1;
            Ok(())
        });
        counted.expect("a trace");
        assert_eq!(at, lines.len());
        assert!(at > 1000, "{at}");
        // Who is in the events is in the threads, and called as in the table of latencies.
        let threads = trace::threads(&host, tids);
        says_what_it_is(&threads);
        let threads = there_and_back(&[threads]);
        for line in lines.iter().filter(|line| *get(line, "event") == Cell::Text("switch".into())) {
            let next = get(line, "tid");
            let known = threads.iter().any(|thread| get(thread, "tid") == next);
            assert!(known || matches!(next, Cell::Null | Cell::Whole(0)), "{line:?}");
        }
        let (latency, _) = latency(path);
        let named = |name: &str| {
            threads.iter().any(|thread| *get(thread, "vcpu") == Cell::Text(name.to_owned()))
        };
        let some = latency.vcpus.iter().filter(|vcpu| named(&vcpu.vcpu)).count();
        assert!(some * 2 > latency.vcpus.len(), "{some} of {}", latency.vcpus.len());
    }
}
