//! What an observer has seen.

use lowtail_arrow::observe;
use lowtail_discover::{Kind, KnownBy, NamedBy, Origin, Role};
use lowtail_kernel::Name;
use lowtail_observe::{
    Blame, Cause, Culprit, Drop, Finding, Histogram, Lost, Network, Queue, QueueBlame, Runner,
    Sender, Sent, Snapshot, Symptom, ThreadSnapshot, Throttled, Unit, Unseen, Uplink, VmSnapshot,
};
use lowtail_trace::Reason;
use serde_json::{Value, json};

use crate::{Cell, Line, get, is, same, says_what_it_is, there_and_back};

/// Numbers that differ everywhere, so that no figure can stand in another one's column.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // Odd steps of a golden ratio of 2^32: no two are equal, and none is round.
        self.0 = self.0.wrapping_add(2_654_435_769);
        self.0 % (1 << 40) | 1
    }

    fn histogram(&mut self) -> Histogram {
        let mut histogram = Histogram::default();
        (0..self.next() % 900 + 100).for_each(|_| histogram.record(self.next() % 50_000_000));
        histogram
    }

    fn sent(&mut self, senders: impl IntoIterator<Item = Sender>) -> Vec<Sent> {
        senders.into_iter().map(|sender| Sent { sender, bytes: self.next() }).collect()
    }

    fn queue_blame(&mut self) -> QueueBlame {
        QueueBlame {
            sampled_packets: self.next(),
            sampled_delay_ns: self.next(),
            bytes_ahead: self.next(),
            senders: self.sent([Sender::Vm(Name::new("web"), 77), Sender::Others]),
        }
    }

    fn thread(&mut self, role: Role) -> ThreadSnapshot {
        let blame = |runner, ready_ns, reason| Blame { runner, ready_ns, reason };
        ThreadSnapshot {
            tid: self.next() as u32,
            role,
            comm: Name::new("CPU 0/KVM \u{1b}[2J"),
            run_time_ns: self.next(),
            ready_after_wakeup_ns: self.next(),
            ready_after_preemption_ns: self.next(),
            wakeup_latency: self.histogram(),
            preemption_latency: self.histogram(),
            current_wait_ns: self.next(),
            blame: vec![
                blame(Runner::Vm(Name::new("batch"), 78), self.next(), Some(Reason::RateLimit)),
                blame(Runner::Process(Name::new("make"), 79), self.next(), None),
                blame(Runner::Kernel(Name::new("kworker/0:1")), self.next(), None),
                blame(Runner::Idle, self.next(), Some(Reason::IdleWaking)),
                blame(Runner::Quota, self.next(), None),
                blame(Runner::Others, self.next(), None),
            ],
        }
    }

    fn network(&mut self) -> Network {
        let senders = [
            Sender::Vm(Name::new("web"), 77),
            Sender::Group(Name::new("/system.slice/backup.service")),
            Sender::Interface(Name::new("eth1")),
            Sender::Host,
            Sender::Others,
        ];
        let drop = |reason: &str, packets| Drop { reason: reason.to_owned(), packets };
        Network {
            taps: Vec::new(),
            transmitted_packets: self.next(),
            transmitted_bytes: self.next(),
            queueing_delay: self.histogram(),
            drops: vec![drop("QDISC_DROP", self.next()), drop("77", self.next())],
            round_trip: Histogram::default(),
            queue_blame: self.queue_blame(),
            received_packets: self.next(),
            received_bytes: self.next(),
            received_senders: self.sent(senders),
            receive_queueing_delay: self.histogram(),
            receive_queue_blame: self.queue_blame(),
        }
    }

    fn vm(&mut self, name: &str, network: bool) -> VmSnapshot {
        let roles = [
            Role::Vcpu(0),
            Role::Vcpu(1),
            Role::Vhost(0),
            Role::IoThread(3),
            Role::Emulator,
            Role::Worker,
        ];
        VmSnapshot {
            name: Name::new(name),
            kind: Kind::CloudHypervisor,
            origin: Origin {
                known_by: KnownBy::Kvm,
                named_by: if network { NamedBy::User(1000) } else { NamedBy::Root },
                uid: network.then_some(1000),
                root_cgroup: network,
            },
            pid: self.next() as u32,
            started_ticks: self.next(),
            ended: !network,
            threads: roles.map(|role| self.thread(role)).into(),
            throttled: ["", "vcpu0"]
                .map(|group| Throttled {
                    group: Name::new(group),
                    periods: self.next(),
                    throttled_periods: self.next(),
                    throttled_ns: self.next(),
                })
                .into(),
            network: network.then(|| self.network()),
            unseen_threads: Unseen {
                vcpus: self.next(),
                backend: self.next(),
                workers: self.next(),
                started: self.next(),
            },
        }
    }
}

/// Two VMs, one without interfaces; everything that a snapshot can have.
fn snapshot(numbers: &mut Numbers) -> Snapshot {
    Snapshot {
        unix_ms: 1_796_057_098_123 + numbers.next() % 1000,
        interval_ms: 1000.123456,
        vms: vec![numbers.vm("web", true), numbers.vm("b\u{e4}tch \"2\"", false)],
        uplinks: vec![Uplink {
            name: Name::new("eth0"),
            transmitted_bytes: numbers.next(),
            senders: numbers.sent([Sender::Host, Sender::Vm(Name::new("web"), 77)]),
        }],
        lost: Lost {
            waits: numbers.next(),
            blame: numbers.next(),
            packets: numbers.next(),
            threads: numbers.next(),
        },
        coverage_gaps: vec!["no BTF".to_owned(), "no taps".to_owned()],
        incomplete: true,
    }
}

fn findings() -> Vec<Finding> {
    let cause =
        |culprit, ratio, reason, bits_per_second| Cause { culprit, ratio, reason, bits_per_second };
    let finding = |symptom: Symptom, unit, causes| Finding {
        vm: Name::new("web"),
        pid: 4711,
        started_ticks: 1 << 40,
        queue: symptom.queue(),
        symptom,
        value: 0.1 + 0.2,
        limit: 0.001,
        unit,
        causes,
        duration_ms: 12_345.678901,
    };
    let sender = Culprit::Sender(Sender::Group(Name::new("/a")));
    vec![
        finding(
            Symptom::WakeupLatency,
            Unit::Seconds,
            vec![
                cause(
                    Culprit::Runner(Runner::Vm(Name::new("batch"), 78)),
                    2.0 / 3.0,
                    Some(Reason::Busy),
                    None,
                ),
                cause(Culprit::Runner(Runner::Idle), 1.0 / 3.0, None, None),
            ],
        ),
        finding(
            Symptom::QueueingDelay,
            Unit::Seconds,
            vec![cause(sender, 0.7, None, Some(1e9 / 3.0))],
        ),
        finding(Symptom::Drops, Unit::Packets, Vec::new()),
    ]
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The six columns of a histogram.
fn histogram_is(line: &Line, column: &str, json: &Value) {
    for figure in
        ["count", "sum_seconds", "p50_seconds", "p99_seconds", "p99_9_seconds", "max_seconds"]
    {
        let cell = get(line, &format!("{column}_{figure}"));
        let value = json.get(figure).unwrap_or(&Value::Null);
        assert!(is(cell, value), "{column} {figure}: {cell:?}, {value}");
    }
}

/// Somebody in three columns: what they are, their name, their process.
fn who_is(line: &Line, columns: [&str; 3], json: &Value) {
    let (word, rest) = match json {
        Value::Object(one) => one.iter().next().map(|(word, rest)| (word.as_str(), rest)).unwrap(),
        word => (word.as_str().unwrap(), &Value::Null),
    };
    let (name, pid) = match rest {
        Value::Array(both) => (&both[0], &both[1]),
        name => (name, &Value::Null),
    };
    for (column, value) in columns.iter().zip([&json!(word), name, pid]) {
        assert!(is(get(line, column), value), "{column}: {value}");
    }
}

/// Writes the tables of all intervals and reads them back, in the order of `observe::tables`.
fn tables(snapshots: &[Snapshot], found: &[Finding]) -> Vec<Vec<Line>> {
    let intervals: Vec<_> = snapshots.iter().map(|one| observe::batches(one, found)).collect();
    let schemas = observe::tables();
    let table = |number: usize| {
        let batches: Vec<_> = intervals.iter().map(|tables| tables[number].clone()).collect();
        batches.iter().for_each(says_what_it_is);
        assert_eq!(batches[0].schema(), schemas[number].2, "{}", schemas[number].0);
        there_and_back(&batches)
    };
    (0..schemas.len()).map(table).collect()
}

#[test]
fn figures_are_those_of_json() {
    let mut numbers = Numbers(7);
    let snapshots = [snapshot(&mut numbers), snapshot(&mut numbers)];
    let found = findings();
    let tables = tables(&snapshots, &found);
    let names = observe::tables().map(|(name, ..)| name);
    let mut tables = names.into_iter().zip(tables.into_iter().map(Vec::into_iter));
    let mut table = |wanted: &str| {
        let (name, lines) = tables.next().expect("a table");
        assert_eq!(name, wanted);
        lines
    };
    let [mut intervals, mut vms, mut threads, mut blames] =
        ["intervals", "vms", "threads", "blame"].map(&mut table);
    let [mut throttled, mut drops, mut senders] = ["throttled", "drops", "senders"].map(&mut table);
    let [mut uplinks, mut told, mut causes] = ["uplinks", "findings", "causes"].map(&mut table);
    for snapshot in &snapshots {
        let json = serde_json::to_value(snapshot).expect("JSON");
        let time = [("timestamp", "/timestamp_seconds")];
        let line = intervals.next().expect("an interval");
        same(&line, &json, &time);
        same(
            &line,
            &json,
            &[
                ("interval_seconds", "/interval_seconds"),
                ("lost_waits", "/lost/waits"),
                ("lost_blame", "/lost/blame"),
                ("lost_packets", "/lost/packets"),
                ("lost_threads", "/lost/threads"),
                ("incomplete", "/incomplete"),
            ],
        );
        assert_eq!(*get(&line, "vms"), Cell::Whole(2));
        assert_eq!(*get(&line, "coverage_gaps"), Cell::Text("no BTF\nno taps".to_owned()));
        let whose = |line: &Line, vm: &Value| {
            same(line, &json, &time);
            same(
                line,
                vm,
                &[("vm", "/name"), ("pid", "/pid"), ("started_ticks", "/started_ticks")],
            );
        };
        let mut sent = |place: &str, uplink: &Value, vm: &Value, all: &[Value]| {
            for one in all {
                let line = senders.next().expect("a sender");
                same(&line, &json, &time);
                assert_eq!(*get(&line, "place"), Cell::Text(place.to_owned()));
                assert!(is(get(&line, "uplink"), uplink));
                same(
                    &line,
                    vm,
                    &[("vm", "/name"), ("pid", "/pid"), ("started_ticks", "/started_ticks")],
                );
                who_is(&line, ["sender", "sender_name", "sender_pid"], &one["sender"]);
                same(&line, one, &[("bytes", "/bytes")]);
            }
        };
        for (uplink, with) in list(&json, "/uplinks").iter().zip(&snapshot.uplinks) {
            let line = uplinks.next().expect("an uplink");
            same(&line, &json, &time);
            same(
                &line,
                uplink,
                &[("uplink", "/name"), ("transmitted_bytes", "/transmitted_bytes")],
            );
            let rate = with.bits_per_second(snapshot.interval_ms);
            assert_eq!(*get(&line, "bits_per_second"), Cell::Bits(rate.to_bits()));
            sent("uplink", &uplink["name"], &Value::Null, list(uplink, "/senders"));
        }
        for vm in list(&json, "/vms") {
            let line = vms.next().expect("a VM");
            whose(&line, vm);
            same(&line, &json, &[("interval_seconds", "/interval_seconds")]);
            same(
                &line,
                vm,
                &[
                    ("kind", "/kind"),
                    ("found_by", "/found_by"),
                    ("uid", "/uid"),
                    ("root_cgroup", "/root_cgroup"),
                    ("ended", "/ended"),
                    ("named_by_uid", "/named_by/user"),
                    ("unseen_vcpus", "/unseen_threads/vcpus"),
                    ("unseen_backend", "/unseen_threads/backend"),
                    ("unseen_workers", "/unseen_threads/workers"),
                    ("unseen_started", "/unseen_threads/started"),
                    ("transmitted_packets", "/network/transmitted_packets"),
                    ("transmitted_bytes", "/network/transmitted_bytes"),
                    ("sampled_packets", "/network/queue_blame/sampled_packets"),
                    ("sampled_delay_seconds", "/network/queue_blame/sampled_delay_seconds"),
                    ("bytes_ahead", "/network/queue_blame/bytes_ahead"),
                    ("received_packets", "/network/received_packets"),
                    ("received_bytes", "/network/received_bytes"),
                    ("receive_sampled_packets", "/network/receive_queue_blame/sampled_packets"),
                    (
                        "receive_sampled_delay_seconds",
                        "/network/receive_queue_blame/sampled_delay_seconds",
                    ),
                    ("receive_bytes_ahead", "/network/receive_queue_blame/bytes_ahead"),
                ],
            );
            let named =
                if vm["named_by"].is_object() { json!("user") } else { vm["named_by"].clone() };
            assert!(is(get(&line, "named_by"), &named));
            for delay in ["queueing_delay", "round_trip", "receive_queueing_delay"] {
                histogram_is(&line, delay, &vm["network"][delay]);
            }
            // Sums over threads and groups, in nanoseconds, which is what the snapshot counts in.
            let with = snapshot.vms.iter().find(|with| json!(with.name) == vm["name"]).unwrap();
            let sum = |of: fn(&ThreadSnapshot) -> u64, which: fn(&Role) -> bool| {
                let own = with.threads.iter().filter(|thread| which(&thread.role));
                Cell::Bits((own.map(of).sum::<u64>() as f64 / 1e9).to_bits())
            };
            let vcpu = |role: &Role| matches!(role, Role::Vcpu(_));
            let backend =
                |role: &Role| matches!(role, Role::Vhost(_) | Role::IoThread(_) | Role::Emulator);
            let run = |thread: &ThreadSnapshot| thread.run_time_ns;
            assert_eq!(*get(&line, "vcpu_run_time_seconds"), sum(run, vcpu));
            assert_eq!(*get(&line, "backend_run_time_seconds"), sum(run, backend));
            assert_eq!(
                *get(&line, "worker_run_time_seconds"),
                sum(run, |role| *role == Role::Worker)
            );
            assert_eq!(*get(&line, "vcpu_ready_seconds"), sum(ThreadSnapshot::ready_ns, vcpu));
            let ratio = with.ready_ratio().expect("they ran");
            assert_eq!(*get(&line, "ready_ratio"), Cell::Bits(ratio.to_bits()));
            for (column, which) in
                [("vcpu_wakeup_latency", vcpu as fn(&Role) -> bool), ("backend_latency", backend)]
            {
                let mut all = Histogram::default();
                let own = with.threads.iter().filter(|thread| which(&thread.role));
                own.for_each(|thread| all.merge(&thread.wakeup_latency));
                histogram_is(&line, column, &json!(all));
            }
            for (column, count) in [("vcpus", 2), ("backend", 3), ("workers", 1)] {
                assert_eq!(*get(&line, column), Cell::Whole(count));
            }
            let packets =
                list(vm, "/network/drops").iter().map(|drop| drop["packets"].as_u64().unwrap());
            let packets = with.network.as_ref().map_or(Cell::Null, |_| Cell::Whole(packets.sum()));
            assert_eq!(*get(&line, "dropped_packets"), packets);
            let periods: u64 = with.throttled.iter().map(|group| group.throttled_periods).sum();
            assert_eq!(*get(&line, "throttled_periods"), Cell::Whole(periods));
            for thread in list(vm, "/threads") {
                let line = threads.next().expect("a thread");
                whose(&line, vm);
                same(
                    &line,
                    thread,
                    &[
                        ("tid", "/tid"),
                        ("role", "/role"),
                        ("index", "/index"),
                        ("comm", "/comm"),
                        ("run_time_seconds", "/run_time_seconds"),
                        ("ready_after_wakeup_seconds", "/ready_after_wakeup_seconds"),
                        ("ready_after_preemption_seconds", "/ready_after_preemption_seconds"),
                        ("current_wait_seconds", "/current_wait_seconds"),
                    ],
                );
                histogram_is(&line, "wakeup_latency", &thread["wakeup_latency"]);
                histogram_is(&line, "preemption_latency", &thread["preemption_latency"]);
                for blame in list(thread, "/blame") {
                    let line = blames.next().expect("blame");
                    whose(&line, vm);
                    same(&line, thread, &[("tid", "/tid"), ("role", "/role"), ("index", "/index")]);
                    who_is(&line, ["runner", "runner_name", "runner_pid"], &blame["runner"]);
                    same(
                        &line,
                        blame,
                        &[("ready_seconds", "/ready_seconds"), ("reason", "/reason")],
                    );
                }
            }
            for group in list(vm, "/throttled") {
                let line = throttled.next().expect("a group");
                whose(&line, vm);
                same(
                    &line,
                    group,
                    &[
                        ("group", "/group"),
                        ("periods", "/periods"),
                        ("throttled_periods", "/throttled_periods"),
                        ("throttled_seconds", "/throttled_seconds"),
                    ],
                );
            }
            for drop in list(vm, "/network/drops") {
                let line = drops.next().expect("a drop");
                whose(&line, vm);
                same(&line, drop, &[("reason", "/reason"), ("packets", "/packets")]);
            }
            for (place, path) in [
                ("received", "/network/received_senders"),
                ("ahead", "/network/queue_blame/senders"),
                ("receive-ahead", "/network/receive_queue_blame/senders"),
            ] {
                sent(place, &Value::Null, vm, list(vm, path));
            }
        }
        for finding in list(&json!({ "findings": found }), "/findings") {
            let line = told.next().expect("a finding");
            same(&line, &json, &time);
            let columns = [
                "vm",
                "pid",
                "started_ticks",
                "queue",
                "symptom",
                "value",
                "limit",
                "unit",
                "duration_seconds",
            ];
            let paths = columns.map(|column| format!("/{column}"));
            let pairs: Vec<_> =
                columns.iter().copied().zip(paths.iter().map(String::as_str)).collect();
            same(&line, finding, &pairs);
            for (place, cause) in (1..).zip(list(finding, "/causes")) {
                let line = causes.next().expect("a cause");
                same(&line, &json, &time);
                same(&line, finding, &[("vm", "/vm"), ("pid", "/pid"), ("symptom", "/symptom")]);
                assert_eq!(*get(&line, "place"), Cell::Whole(place));
                let culprit = if cause["runner"].is_null() { "sender" } else { "runner" };
                assert_eq!(*get(&line, "culprit"), Cell::Text(culprit.to_owned()));
                who_is(&line, ["who", "who_name", "who_pid"], &cause[culprit]);
                same(
                    &line,
                    cause,
                    &[
                        ("ratio", "/ratio"),
                        ("reason", "/reason"),
                        ("bits_per_second", "/bits_per_second"),
                    ],
                );
            }
        }
    }
    for rest in [intervals, vms, threads, blames, throttled, drops, senders, uplinks, told, causes]
    {
        assert_eq!(rest.count(), 0);
    }
    assert_eq!(json!(Queue::RunQueue), "run-queue");
}

/// An idle host is a line, too: that there were no VMs is known.
#[test]
fn an_interval_without_vms_is_a_line() {
    let tables = tables(&[Snapshot { unix_ms: 1, ..Snapshot::default() }], &[]);
    let lines: Vec<usize> = tables.iter().map(Vec::len).collect();
    assert_eq!(lines, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(*get(&tables[0][0], "coverage_gaps"), Cell::Null);
}
