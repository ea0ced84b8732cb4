//! `lab run --blame`: whose bytes were in front of whose packets, where arithmetic says whose they must be.

use serde_json::Value;

use crate::{Place, TINY};

/// Two VMs that may send beside one that pings, through an uplink of 100 Mbit/s with 200 KB.
const SCENARIO: &str = r#"
title = "a ping beside others"
seed = 1
duration = "4s"
[network]
topology = { kind = "star", hosts = ["A", "B", "C"] }
link = { rate = "100Mbit/s", delay = "20us", buffer = "400KB" }
queue = { kind = "fifo", bytes = "200KB" }
[end.web]
on = "A"
[end.backup]
on = "A"
[end.copy]
on = "A"
[traffic.web]
from = "web"
to = "B"
pattern = { kind = "ping", bytes = 56, gap = "10ms" }
[traffic.backup]
from = "backup"
to = "C"
pattern = { kind = "bulk" }
[traffic.copy]
from = "copy"
to = "C"
pattern = { kind = "bulk" }
[[case]]
name = "one"
set = { "traffic.copy.start" = "100s" }
[[case]]
name = "alike"
[case.set]
"traffic.backup.pattern" = { kind = "datagrams", bytes = 1000, gap = { exponential = "200us" } }
"traffic.copy.pattern" = { kind = "datagrams", bytes = 1000, gap = { exponential = "200us" } }
[[case]]
name = "lossy"
set = { "network.link.loss" = 0.01 }
[[case]]
name = "full"
set = { "network.queue.bytes" = "10B" }
[[case]]
name = "idle"
set = { "traffic.web.start" = "100s", "traffic.backup.start" = "100s", "traffic.copy.start" = "100s" }
"#;

/// Bits per second of all links.
const RATE: f64 = 100e6;

fn place() -> Place {
    let place = Place::new();
    place.write("q.toml", SCENARIO).write("tiny.toml", TINY);
    place
}

fn run(place: &Place, options: &str) -> Value {
    let line = format!("lab run q.toml --no-report --json {options}");
    place.line(&line).expect(0, &[]).json()["experiments"][0].clone()
}

/// Who waits at `queue` of `case`.
fn waiters(experiment: &Value, case: &str, queue: &str) -> Vec<Value> {
    let all = experiment["queue_blame"].as_array().expect("a list").iter();
    let mut found = all.filter(|entry| entry["case"] == case && entry["queue"] == queue);
    found.next().map_or(Vec::new(), |entry| entry["waiters"].as_array().unwrap().clone())
}

fn of(waiters: &[Value], traffic: &str) -> Value {
    waiters.iter().find(|entry| entry["traffic"] == traffic).cloned().unwrap_or_default()
}

/// The part of `owner` in what was in front of `waiter`.
fn ratio(waiter: &Value, owner: &str) -> f64 {
    of(waiter["in_front"].as_array().expect("a list"), owner)["ratio"].as_f64().unwrap_or(0.0)
}

#[test]
fn bytes_are_whose_arithmetic_says() {
    let place = place();
    let all = run(&place, "--blame");
    // The stream keeps the 200 KB full; of a ping of 122 bytes on the wire every 10 ms there are two at most in 16 ms.
    let web = of(&waiters(&all, "one", "A"), "web");
    assert!(ratio(&web, "backup") > 0.99, "{web}");
    let mean = web["in_front_bytes"].as_f64().unwrap() / web["packets"].as_f64().unwrap();
    // CUBIC goes back to 70 % of what fills the buffer; frames have 38 bytes on the wire that the queue does not count.
    assert!((120e3..210e3).contains(&mean), "{mean}");
    let stream = of(&waiters(&all, "one", "A"), "backup");
    // All of the line but the pings' 0.1 %.
    let rate = stream["transmitted_bits_per_second"].as_f64().unwrap();
    assert!((0.97 * RATE..RATE).contains(&rate), "{rate}");
    // 20,000 packets of each of two senders that are alike: 1 % of scatter.
    for waiter in ["backup", "copy", "web"] {
        let entry = of(&waiters(&all, "alike", "A"), waiter);
        let share = ratio(&entry, "copy");
        assert!((share - 0.5).abs() < 0.05, "{waiter}: {share}");
    }
    for case in ["full", "idle"] {
        let there = all["queue_blame"].as_array().unwrap().iter();
        // No packet of 10 bytes: who is refused has not waited. What cannot leave waits nowhere.
        assert_eq!(there.filter(|entry| entry["case"] == case).count(), 0, "{case}");
    }
}

/// The sums are those of the queue: bytes by owner are all in front, and these are the time that was waited, times the rate.
#[test]
fn sums_are_those_of_the_queue() {
    let all = run(&place(), "--blame");
    let mut waited = 0;
    for entry in all["queue_blame"].as_array().unwrap() {
        for waiter in entry["waiters"].as_array().unwrap() {
            let number =
                |key: &str| waiter[key].as_f64().unwrap_or_else(|| panic!("{key}: {waiter}"));
            let parts = waiter["in_front"].as_array().unwrap();
            let sum: f64 = parts.iter().map(|part| part["bytes"].as_f64().unwrap()).sum();
            assert_eq!(sum, number("in_front_bytes"));
            let ratios: f64 = parts.iter().map(|part| part["ratio"].as_f64().unwrap()).sum();
            assert!(parts.is_empty() || (ratios - 1.0).abs() < 1e-9);
            // Up to the rest of the frame that is being sent at the end, for each that waits then.
            let off = (sum - number("wait_seconds") * RATE / 8.0).abs();
            assert!(off <= number("packets") + 200.0 * 1_538.0, "{off}: {waiter}");
            let longest = number("longest_wait_seconds");
            assert!(
                longest <= 210e3 * 8.0 / RATE
                    && longest * number("packets") >= 0.9 * number("wait_seconds")
            );
            waited += u64::from(sum > 0.0);
        }
    }
    assert!(waited > 6, "{waited}");
    let dropped = of(&waiters(&all, "lossy", "A"), "backup")["dropped_packets"].clone();
    // A queue that refuses at its end drops nobody who waits; a link that loses is none of it.
    assert_eq!(dropped, 0);
}

/// Who looks changes nothing; and what is seen does not depend on the number of threads, or of seeds.
#[test]
fn looking_changes_nothing() {
    let place = place();
    let blamed = run(&place, "--blame --jobs 1");
    assert_eq!(blamed, run(&place, "--blame --jobs 3"));
    let mut without = blamed.clone();
    assert!(without.as_object_mut().unwrap().remove("queue_blame").is_some());
    assert_eq!(without, run(&place, ""));
    assert_eq!(run(&place, "--blame --seeds 2")["queue_blame"], blamed["queue_blame"]);
    assert_ne!(run(&place, "--blame --seed 2")["queue_blame"], blamed["queue_blame"]);
}

/// The table names the queue, who waits and for whom; no line is longer than a terminal.
#[test]
fn tables_and_report() {
    let place = place();
    let ran = place.line("lab run q.toml --blame --report r.html");
    let out = ran.expect(0, &[]).out.clone();
    let (_, tables) = out.split_once("queues of case one").expect("a table");
    let words: Vec<Vec<&str>> =
        tables.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[2].join(" "), "queue who waits packets wait us in front B Mbit/s whose bytes");
    let web = words.iter().find(|line| line.first() == Some(&"web")).expect("who waits");
    assert_eq!(web[5..], ["backup", "100", "%"], "{web:?}");
    assert!(words.iter().any(|line| line.first() == Some(&"A") && line[1] == "backup"));
    let (_, idle) = out.split_once("queues of case idle").expect("a table");
    assert!(idle.contains("no packet has waited"));
    assert!(tables.lines().all(|line| line.chars().count() <= 80), "{tables}");
    let html = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(html.contains("<table class=\"blame\">") && html.contains("--share: 0.9"));
    place.line("lab run q.toml --report r.html").expect(0, &[]);
    let html = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(!html.contains("<table class=\"blame\">"));
}

/// Traffic beyond sixteen is one class.
#[test]
fn many_kinds_of_traffic() {
    let place = Place::new();
    let mut text = "title = 'many'\nduration = '100ms'\n[network]\n\
        topology = { kind = 'star', hosts = ['A', 'B'] }\nlink = { rate = '10Mbit/s', delay = '5us' }\n"
        .to_string();
    for i in 10..30 {
        text += &format!(
            "[traffic.t{i}]\nfrom = 'A'\nto = 'B'\npattern = {{ kind = 'datagrams', bytes = 500, gap = '1ms' }}\n"
        );
    }
    place.write("q.toml", text);
    let waiters = waiters(&run(&place, "--blame"), "run", "A");
    let names: Vec<&str> = waiters.iter().map(|entry| entry["traffic"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 16, "{names:?}");
    assert_eq!(names[13..], ["t23", "t24", "5 others"]);
    // A quarter of all packets.
    assert!((ratio(&waiters[0], "5 others") - 0.25).abs() < 0.02, "{}", waiters[0]);
}

/// A stream that fills a wire of 1 Gbit/s, and requests over a wire of their own, for two VMs behind one tasklet.
const LONE: &str = r#"
title = "lone"
duration = "500ms"
show = ["mbit_per_second.sink"]
[host]
pcpus = 3
costs = "netback-2009"
scheduler = { kind = "null" }
[vm.dom0]
workload = { kind = "driver-domain", backend = "tasklet" }
[vm.sink]
workload = { kind = "net-guest" }
[vm.quiet]
workload = { kind = "net-guest" }
[nic.eth]
rate = "1Gbit/s"
moderation = "125us"
[nic.own]
rate = "1Gbit/s"
latency = "30us"
[flow.stream]
vm = "sink"
way = { in = "eth" }
pace = { window = 44 }
payload = 1400
[flow.ping]
vm = "quiet"
way = { in = "own" }
pace = { requests = { exponential = "1ms" } }
payload = 56
requests = 10000
"#;

/// At the back ends of a lone host VMs wait for each other; at its links, which they do not share, for nobody else.
#[test]
fn back_ends_and_links_of_a_lone_host() {
    let place = Place::new();
    place.write("q.toml", LONE);
    let all = run(&place, "--blame");
    let there = waiters(&all, "run", "back end 0 to VMs");
    let (sink, quiet) = (of(&there, "sink"), of(&there, "quiet"));
    // 80,000 packets a second of the one, 1,000 of the other.
    assert!(ratio(&quiet, "sink") > 0.95, "{quiet}");
    assert!(sink["packets"].as_u64() > Some(20_000) && quiet["packets"].as_u64() > Some(400));
    // What is taken is what the VMs have got, with headers of 28 bytes.
    let got = all["rows"][0]["bits_per_second.sink"].as_f64().expect("a rate");
    let taken = sink["transmitted_bits_per_second"].as_f64().expect("a rate");
    assert!((1.0..1.05).contains(&(taken / got)), "{taken} of {got}");
    let link = waiters(&all, "run", "to:eth");
    assert!(ratio(&of(&link, "sink"), "sink") == 1.0 && of(&link, "quiet").is_null(), "{link:?}");
    let mut without = all.clone();
    without.as_object_mut().unwrap().remove("queue_blame");
    assert_eq!(without, run(&place, ""));
    assert_eq!(run(&place, "--blame --jobs 2"), all);
}

#[test]
fn what_has_no_queues_is_refused() {
    let place = place();
    place.line("lab run tiny.toml --blame").expect(2, &["--blame", "no `[network]`"]);
    place
        .line("lab run q.toml --blame --on kernel")
        .expect(2, &["--blame", "leave out --on kernel"]);
}
