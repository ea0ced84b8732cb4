//! What Prometheus gets, whatever VMs do.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use lowtail_discover::Role;
use lowtail_kernel::Histogram;
use lowtail_kernel::Name;
use lowtail_observe::{
    Blame, Diagnosis, Drop, Network, Runner, Sender, Sent, ThreadSnapshot, Uplink, VmSnapshot,
};

use super::openmetrics::{Family, parse};
use super::totals::{ROLES_MAX, ROLES_SHARED, ROLES_SURE, VMS_MAX};
use super::*;
use crate::host::example::{snapshot, waits};

/// What is served now.
fn served(metrics: &Metrics) -> String {
    metrics.published.text().expect("it can be encoded")
}

/// The same, as what it means.
fn families(metrics: &Metrics) -> Vec<Family> {
    let text = served(metrics);
    parse(&text).unwrap_or_else(|why| panic!("{why}\n{text:.20000}"))
}

/// Values of a metric by these labels, joined with a space.
fn values(metrics: &Metrics, name: &str, labels: &[&str]) -> Vec<(String, f64)> {
    let all = families(metrics);
    let samples = all.iter().flat_map(|family| &family.samples).filter(|s| s.name == name);
    let label = |sample: &super::openmetrics::Sample, label: &&str| {
        sample.labels.get(*label).cloned().unwrap_or_default()
    };
    let joined = |sample| labels.iter().map(|name| label(sample, name)).collect::<Vec<_>>();
    samples.map(|sample| (joined(sample).join(" "), sample.value)).collect()
}

/// A VM like the second of the example.
fn machine(name: &str, pid: u32, started_ticks: u64) -> VmSnapshot {
    let vm = snapshot().vms.remove(1);
    VmSnapshot { name: Name::new(name), pid, started_ticks, ..vm }
}

fn interval(vms: Vec<VmSnapshot>) -> Snapshot {
    Snapshot { interval_ms: 1000.0, vms, ..Snapshot::default() }
}

#[test]
fn totals_grow_and_are_served() {
    let (mut metrics, mut diagnosis) = (Metrics::default(), Diagnosis::default());
    for _ in 0..2 {
        let snapshot = snapshot();
        metrics.add(&snapshot, &diagnosis.update(&snapshot));
    }
    let address = metrics.serve("127.0.0.1:0".parse().unwrap()).expect("a port is free");
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let text = ask("/metrics");
    println!("{text}");
    let web = "vm=\"web\\\\u{1b}[2J\",pid=\"10\",started_ticks=\"5\"";
    for line in [
        "200 OK",
        "application/openmetrics-text",
        // 200 ms in each interval, and 400 ms of ready time.
        &format!("lowtail_vcpu_run_time_seconds_total{{{web}}} 0.4\n"),
        &format!("lowtail_vcpu_ready_seconds_total{{{web}}} 0.8\n"),
        &format!(
            "lowtail_vm_blame_seconds_total{{{web},by=\"batch\",by_kind=\"vm\",by_pid=\"77\"}} 0.8\n"
        ),
        // 100 of 3 us and 100 of 4 ms in each interval, cumulated: `le` is an upper bound.
        &format!("lowtail_vcpu_wakeup_latency_seconds_bucket{{le=\"0.000004\",{web}}} 200\n"),
        &format!("lowtail_vcpu_wakeup_latency_seconds_bucket{{le=\"0.002048\",{web}}} 200\n"),
        &format!("lowtail_vcpu_wakeup_latency_seconds_bucket{{le=\"0.004096\",{web}}} 400\n"),
        &format!("lowtail_vcpu_wakeup_latency_seconds_bucket{{le=\"+Inf\",{web}}} 400\n"),
        &format!("lowtail_vcpu_wakeup_latency_seconds_sum{{{web}}} 0.8006\n"),
        &format!("lowtail_vm_dropped_packets_total{{{web},reason=\"QDISC_DROP\"}} 4.0\n"),
        // 45 kB in each interval, and 900 kB.
        &format!(
            "lowtail_vm_queue_blame_bytes_total{{{web},by=\"batch\",by_kind=\"vm\",by_pid=\"77\"}} 90000.0\n"
        ),
        "lowtail_uplink_transmitted_bytes_total{uplink=\"eth0\",by=\"system.slice/backup.service\",by_kind=\"group\"} 200000.0\n",
        "symptom=\"wakeup-latency\"",
        "# EOF\n",
    ] {
        assert!(text.contains(line), "`{line}` is not in:\n{text}");
    }
    assert!(ask("/").contains("404"));
    metrics.add(&Snapshot::default(), &[]);
    assert!(!ask("/metrics").contains("web"), "a VM that is gone is not told for ever");
}

/// Microseconds, percent and packets were once values of one metric.
#[test]
fn findings_are_in_base_units() {
    let mut vm = machine("web", 10, 5);
    vm.throttled[0].periods = 10;
    vm.throttled[0].throttled_periods = 5;
    if let Some(network) = &mut vm.network {
        network.drops = vec![Drop { reason: "QDISC_DROP".to_string(), packets: 7 }];
    }
    let snapshot = interval(vec![vm]);
    let mut metrics = Metrics::default();
    metrics.add(&snapshot, &Diagnosis::default().update(&snapshot));
    let (name, value) = values(&metrics, "lowtail_vm_finding_seconds", &["symptom"]).remove(0);
    // 4 ms, in the bucket from 3.932 to 4.063.
    assert!(name == "wakeup-latency" && (0.0039..0.0041).contains(&value), "{name}: {value} s");
    let ratio = values(&metrics, "lowtail_vm_finding_ratio", &["symptom"]);
    assert!(ratio.contains(&("throttling".to_string(), 0.5)), "{ratio:?}");
    let dropped = values(&metrics, "lowtail_vm_finding_packets", &["symptom"]);
    assert_eq!(dropped, [("drops".to_string(), 7.0)]);
    let units: BTreeMap<String, String> = families(&metrics)
        .into_iter()
        .filter_map(|family| Some((family.name, family.unit?)))
        .collect();
    for (name, unit) in [
        ("lowtail_vm_finding_seconds", "seconds"),
        ("lowtail_vm_finding_ratio", "ratio"),
        ("lowtail_vm_finding_packets", "packets"),
    ] {
        assert_eq!(units.get(name).map(String::as_str), Some(unit));
    }
}

/// The kernel gives a number again as soon as all have been given, and VMs are called as their owners like.
#[test]
fn two_of_the_same_name_and_number_are_two() {
    let mut old = machine("web", 10, 5);
    old.ended = true;
    let names =
        ["web", "web\u{1b}", "web\\u{1b}", "a\"b\\\n", &"w".repeat(100), &"w".repeat(200_000)];
    let mut vms: Vec<VmSnapshot> =
        names.iter().zip(6..).map(|(name, started)| machine(name, 10, started)).collect();
    vms[0].threads[0].run_time_ns = 1_000_000_000;
    vms.push(old);
    let snapshot = interval(vms);
    let mut metrics = Metrics::default();
    metrics.add(&snapshot, &Diagnosis::default().update(&snapshot));
    let cpu = values(&metrics, "lowtail_vcpu_run_time_seconds_total", &["started_ticks"]);
    assert_eq!(cpu.len(), 7);
    assert!(cpu.contains(&("5".to_string(), 0.2)) && cpu.contains(&("6".to_string(), 1.0)));
    // A finding of one is not its namesake's.
    let late = values(&metrics, "lowtail_vm_finding_seconds", &["started_ticks"]);
    assert_eq!(late.len(), 7, "{late:?}");
    // The longest of them alone would be more; and no line has it.
    let text = served(&metrics);
    assert!(text.len() < 200_000, "names are cut");
    let longest = text.lines().map(str::len).max();
    assert!(longest < Some(1_000), "names are cut: {longest:?}");
}

/// VMs come, go, come back, are renamed; numbers are given again; threads and names are as tenants like.
#[test]
fn whatever_machines_do_it_is_openmetrics_and_no_counter_falls() {
    let seed: u64 = std::env::var("LOWTAIL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("LOWTAIL_SEED={seed} cargo test -p lowtail whatever_machines_do");
    let mut state = seed;
    // SplitMix64 (Steele, Lea, Flood 2014).
    let mut random = move |below: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    };
    let names = ["web", "others", "nobody (idle)", "a\"b", "\\", "\n", "𝕩", "", "its quota"];
    let (mut metrics, mut diagnosis) = (Metrics::new(true), Diagnosis::default());
    let mut last: BTreeMap<(String, BTreeMap<String, String>), f64> = BTreeMap::new();
    for round in 0..60 {
        let mut vms = Vec::new();
        for started in 0..12 {
            if random(3) == 0 {
                continue;
            }
            let name = names[random(names.len() as u64) as usize];
            let mut vm = machine(name, 10 + (started % 3) as u32, started);
            vm.ended = random(4) == 0;
            for tid in 0..random(6) {
                let role = [Role::Worker, Role::Emulator, Role::Vcpu(random(20) as u16)];
                let who = names[random(names.len() as u64) as usize];
                let runner = match random(5) {
                    0 => Runner::Vm(Name::new(who), random(9) as u32),
                    1 => Runner::Process(Name::new(who), random(900) as u32),
                    2 => Runner::Kernel(Name::new(who)),
                    3 => Runner::Idle,
                    _ => Runner::Others,
                };
                vm.threads.push(ThreadSnapshot {
                    tid: tid as u32,
                    role: role[random(3) as usize],
                    comm: Name::new(name),
                    run_time_ns: random(1_000_000_000),
                    wakeup_latency: waits(&[(1 << random(25), random(4))]),
                    preemption_latency: Histogram::default(),
                    ready_after_wakeup_ns: 0,
                    ready_after_preemption_ns: 0,
                    current_wait_ns: 0,
                    blame: vec![Blame { runner, ready_ns: random(1_000_000_000), reason: None }],
                });
            }
            if random(2) == 0 {
                vm.network = None;
            }
            vms.push(vm);
        }
        let snapshot = interval(vms);
        metrics.add(&snapshot, &diagnosis.update(&snapshot));
        for family in families(&metrics).into_iter().filter(|family| family.kind != "gauge") {
            for sample in family.samples {
                let now = sample.value;
                let before = last.insert((sample.name.clone(), sample.labels.clone()), now);
                let before = before.unwrap_or(0.0);
                assert!(before <= now, "round {round}: {before} before {sample:?}");
            }
        }
    }
    assert!(last.len() > 1_000, "{} series", last.len());
}

/// A tenant who starts thousands of VMs and threads, and calls them as it likes.
#[test]
fn a_scrape_is_bounded_and_says_what_it_leaves_out() {
    let thread = |tid: u32, role: Role| ThreadSnapshot {
        tid,
        role,
        comm: Name::new("\u{202e}".repeat(15)),
        run_time_ns: u64::from(u32::MAX),
        wakeup_latency: Histogram::default(),
        preemption_latency: Histogram::default(),
        ready_after_wakeup_ns: 0,
        ready_after_preemption_ns: 0,
        current_wait_ns: 0,
        blame: (0..40)
            .map(|n| {
                let name = Name::new("\u{202e}".repeat(300));
                Blame {
                    runner: Runner::Process(name, tid * 40 + n),
                    ready_ns: 1_000_000,
                    reason: None,
                }
            })
            .collect(),
    };
    let flood = |at: u32, threads: u16| {
        let mut vm = machine(&"\u{202e}".repeat(300), at, 1_000 + u64::from(at));
        vm.threads = (0..threads).map(|n| thread(u32::from(n) + at, Role::Vcpu(n))).collect();
        vm.threads.push(thread(0, Role::Worker));
        vm.network = Some(Network {
            drops: (0..500).map(|n| Drop { reason: format!("{n}"), packets: 1 }).collect(),
            ..Network::default()
        });
        vm
    };
    let mut metrics = Metrics::new(true);
    // One that is here first, and one that is older than the flood.
    metrics.add(&interval(vec![machine("first", 1, 2_000_000)]), &[]);
    let mut vms: Vec<VmSnapshot> = (0..30).map(|at| flood(100 + at, 140)).collect();
    vms.extend((0..600).map(|at| flood(1_000 + at, 6)));
    vms.push(machine("first", 1, 2_000_000));
    vms.push(machine("older", 2, 7));
    let (machines, threads) = (vms.len(), vms.iter().map(|vm| vm.threads.len()).sum::<usize>());
    metrics.add(&interval(vms.clone()), &[]);
    metrics.add(&interval(vms), &[]);
    let text = served(&metrics);
    let told = values(&metrics, "lowtail_vm_info", &["vm"]);
    assert_eq!(told.len(), VMS_MAX);
    for name in ["first", "older"] {
        assert!(told.iter().any(|(vm, _)| vm == name), "{name} is not told");
    }
    let left_out: BTreeMap<String, f64> =
        values(&metrics, "lowtail_not_exported", &["what"]).into_iter().collect();
    assert_eq!(left_out["vms"], (machines - VMS_MAX) as f64);
    assert!(left_out["threads"] > 1_000.0 && left_out["names"] > 1_000.0, "{left_out:?}");
    let roles = values(&metrics, "lowtail_thread_run_time_seconds_total", &["pid", "thread"]);
    let others = roles.iter().filter(|(role, _)| role.ends_with(" others")).count();
    assert!(roles.len() - others <= VMS_MAX * ROLES_SURE + ROLES_SHARED, "{}", roles.len());
    let one = roles.iter().filter(|(role, _)| role.starts_with("100 ")).count();
    assert_eq!(one, ROLES_MAX + 1);
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{machines} VMs, {threads} threads: {series} series, {} bytes", text.len());
    assert!(series < 350_000 && text.len() < 96 << 20, "{series} series, {} bytes", text.len());
}

/// Whoever fetches metrics does not hold up the observer, and the other way round.
#[test]
fn a_scrape_and_the_observer_do_not_wait_for_each_other() {
    let mut metrics = Metrics::default();
    metrics.add(&snapshot(), &[]);
    let published = metrics.published.clone();
    // Somebody is in the middle of a scrape, with all that it holds.
    let (version, held) = published.newest();
    metrics.add(&Snapshot::default(), &[]);
    assert_eq!(published.version(), version + 1);
    assert!(held.vms.len() == 2 && published.newest().1.vms.is_empty());
    assert_eq!(Arc::strong_count(&held), 1, "what is no longer told is not kept");
}

/// A dashboard that asks for a series that is not there shows nothing, and nobody knows why.
#[test]
fn the_dashboard_asks_for_what_there_is() {
    let mut snapshot = snapshot();
    let drops = snapshot.vms[1].network.as_mut().map(|network| &mut network.drops);
    drops.into_iter().flatten().for_each(|drop| drop.packets = 5);
    snapshot.vms[1].throttled[0].throttled_periods = 9;
    let mut vhost = snapshot.vms[1].threads[0].clone();
    vhost.role = Role::Vhost(0);
    snapshot.vms[1].threads.push(vhost);
    let mut metrics = Metrics::default();
    metrics.add(&snapshot, &Diagnosis::default().update(&snapshot));
    let served = served(&metrics);
    let dashboard = include_str!("../../../../../docs/grafana/lowtail.json");
    let json: serde_json::Value = serde_json::from_str(dashboard).expect("it is JSON");
    let panels = json["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let mut asked = 0;
    for target in targets {
        let query = target["expr"].as_str().expect("a query");
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in query.split(|c| !word(c)).filter(|part| part.starts_with("lowtail_")) {
            asked += 1;
            let there = served.lines().any(|line| line.split('{').next() == Some(name));
            assert!(there, "no series `{name}`, which `{query}` asks for");
        }
    }
    assert!(asked > 10, "the dashboard asks for {asked} series");
}

/// What a VM has sent.
fn sent(at: u32) -> Sent {
    Sent { sender: Sender::Vm(Name::new(format!("vm-{at}")), 1_000 + at), bytes: 1_000 }
}

/// What a host serves with so many VMs, each with four vCPUs, three threads of its back end, an interface, a quota, two findings, and
/// five that it is blamed on.
fn host_of(vms: u32, per_thread: bool) -> Metrics {
    let vm = |at: u32| {
        let mut vm = machine(&format!("vm-{at}"), 1_000 + at, 5);
        let thread = vm.threads.remove(0);
        let role = |role: Role| ThreadSnapshot { role, ..thread.clone() };
        vm.threads = (0..4).map(|n| role(Role::Vcpu(n))).collect();
        vm.threads.extend([Role::Emulator, Role::IoThread(1), Role::Vhost(0)].map(role));
        vm.threads[0].blame = (1..=5)
            .map(|n| Blame {
                runner: Runner::Vm(Name::new(format!("vm-{}", at + n)), 1_000 + at + n),
                ready_ns: 1_000_000,
                reason: None,
            })
            .collect();
        vm.threads[1..].iter_mut().for_each(|thread| thread.blame.clear());
        if let Some(network) = &mut vm.network {
            network.queue_blame.senders = (1..=5).map(|n| sent(at + n)).collect();
        }
        vm
    };
    let uplink = Uplink {
        name: Name::new("eth0"),
        transmitted_bytes: 1_000 * u64::from(vms),
        senders: (0..vms).map(sent).collect(),
    };
    let vms = (0..vms).map(vm).collect();
    let snapshot = Snapshot { uplinks: vec![uplink], ..interval(vms) };
    let mut metrics = Metrics::new(per_thread);
    metrics.add(&snapshot, &Diagnosis::default().update(&snapshot));
    metrics
}

/// The table of docs/reference/metrics.md.
#[test]
fn how_many_series_a_host_has_is_in_the_documentation() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = |name: &str| std::fs::read_to_string(docs.join(name)).expect("a page");
    let (page, glossary) = (page("reference/metrics.md"), page("glossary.md"));
    let count = |family: &Family| {
        let names: std::collections::BTreeSet<&String> =
            family.samples.iter().map(|sample| &sample.name).collect();
        let distinct = |labels: &BTreeMap<String, String>| {
            let mut labels = labels.clone();
            labels.remove("le");
            labels
        };
        let all: std::collections::BTreeSet<_> =
            family.samples.iter().map(|sample| distinct(&sample.labels)).collect();
        assert!(!names.is_empty() || family.kind == "counter" || family.kind == "gauge");
        (all.len(), family.samples.len())
    };
    let mut rows = Vec::new();
    for (title, per_thread) in [("by default", false), ("with `--per-thread`", true)] {
        let metrics = host_of(100, per_thread);
        let (mut plain, mut histograms, mut series) = (0, 0, 0);
        for family in families(&metrics) {
            let (own, all) = count(&family);
            series += all;
            *(if family.kind == "histogram" { &mut histograms } else { &mut plain }) += own;
            let name = match family.kind.as_str() {
                "counter" => format!("`{}_total`", family.name),
                "info" => format!("`{}_info`", family.name),
                _ => format!("`{}`", family.name),
            };
            assert!(glossary.contains(&name), "docs/glossary.md has no line for {name}");
            assert!(page.contains(&name), "docs/reference/metrics.md has no line for {name}");
        }
        let kb = served(&metrics).len() / 1_000;
        rows.push(format!(
            "| {title} | {plain} | {histograms} | {series} | {} kB |",
            (kb + 50) / 100 * 100
        ));
    }
    let table = rows.join("\n");
    assert!(page.contains(&table), "docs/reference/metrics.md has to say\n{table}");
}
