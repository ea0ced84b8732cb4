//! `lowtail host observe --prometheus`: what was observed since the start, in OpenMetrics.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use lowtail_live::observe::{Finding, Histogram, Lost, Network, Snapshot};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use tiny_http::{Header, Method, Response, Server};

use super::screen;

/// What OpenMetrics calls itself.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Bounds of buckets: from 1 us, doubling, to half a second.
const DOUBLINGS: u32 = 20;
/// For whom a machine waited: so many are told by name, the others together.
const BLAME_MAX: usize = 50;

/// There is never one, but the encoder wants its type.
type NoExemplar<'a> = Exemplar<[(&'a str, &'a str); 0], f64>;

/// A machine: its name, as a terminal can show it (people look at metrics in one), its process and
/// when that started.
type Key = (String, u32, u64);

/// Totals of one machine.
#[derive(Debug, Default)]
struct Totals {
    kind: String,
    /// By what the thread does, such as `vcpu0`.
    threads: BTreeMap<String, ThreadTotals>,
    /// Nanoseconds by whom.
    blame: BTreeMap<String, u64>,
    throttled_periods: u64,
    throttled_ns: u64,
    network: Option<Network>,
    /// Packets by reason.
    drops: BTreeMap<String, u64>,
    /// Microseconds, packets or percent by trouble; only while it lasts.
    troubles: BTreeMap<&'static str, f64>,
}

/// Totals of threads that do the same.
#[derive(Debug, Default)]
struct ThreadTotals {
    cpu_ns: u64,
    woken: Histogram,
    preempted: Histogram,
}

/// Totals of all machines that are here.
#[derive(Debug, Default)]
struct State {
    vms: BTreeMap<Key, Totals>,
    lost: Lost,
}

/// Collects intervals and serves their totals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Mutex<State>>);

impl Metrics {
    /// Serves `GET /metrics` on `address` for as long as the process lives.
    pub(crate) fn serve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let server = Server::http(address).map_err(io::Error::other)?;
        let bound = server.server_addr().to_ip().unwrap_or(address);
        let mut registry = Registry::with_prefix("lowtail");
        registry.register_collector(Box::new(self.clone()));
        thread::Builder::new().name("metrics".to_string()).spawn(move || {
            for request in server.incoming_requests() {
                // A client that has gone is no trouble of ours.
                let _ = match (request.method(), request.url()) {
                    (Method::Get, "/metrics") => request.respond(answer(&registry)),
                    _ => request.respond(
                        Response::from_string("GET /metrics is all there is\n")
                            .with_status_code(404),
                    ),
                };
            }
        })?;
        Ok(bound)
    }

    /// Adds an interval. A machine that has ended is told once more, and then no longer.
    pub(crate) fn add(&self, snapshot: &Snapshot, findings: &[Finding]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |vm: &lowtail_live::observe::VmSnapshot| {
            (vm.name.to_string(), vm.pid, vm.started_ticks)
        };
        let here: Vec<Key> = snapshot.vms.iter().map(key).collect();
        state.vms.retain(|key, _| here.contains(key));
        let lost = snapshot.lost;
        state.lost.waits += lost.waits;
        state.lost.blame += lost.blame;
        state.lost.packets += lost.packets;
        state.lost.threads += lost.threads;
        for (vm, key) in snapshot.vms.iter().zip(here) {
            let totals = state.vms.entry(key).or_default();
            totals.kind = json_word(&vm.kind);
            for thread in &vm.threads {
                let of = totals.threads.entry(screen::role(thread.role)).or_default();
                of.cpu_ns += thread.cpu_ns;
                of.woken.merge(&thread.wake_to_run);
                of.preempted.merge(&thread.preempted_to_run);
                for blame in &thread.blame {
                    let mut by = screen::who(&blame.who);
                    if totals.blame.len() >= BLAME_MAX && !totals.blame.contains_key(&by) {
                        by = "others".to_string();
                    }
                    *totals.blame.entry(by).or_default() += blame.waited_ns;
                }
            }
            for group in &vm.throttled {
                totals.throttled_periods += group.throttled_periods;
                totals.throttled_ns += group.throttled_ns;
            }
            if let Some(network) = &vm.network {
                let of = totals.network.get_or_insert_default();
                of.packets += network.packets;
                of.bytes += network.bytes;
                of.queue.merge(&network.queue);
                of.beyond.merge(&network.beyond);
                for drop in &network.drops {
                    *totals.drops.entry(drop.reason.clone()).or_default() += drop.packets;
                }
            }
            let own = findings.iter().filter(|finding| finding.pid == vm.pid);
            totals.troubles = own.map(|finding| (finding.trouble.name(), finding.amount)).collect();
        }
    }
}

/// The word that JSON has for it.
fn json_word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn answer(registry: &Registry) -> Response<io::Cursor<Vec<u8>>> {
    let mut body = String::new();
    if text::encode(&mut body, registry).is_err() {
        return Response::from_string("cannot be encoded\n").with_status_code(500);
    }
    let answer = Response::from_string(body);
    match Header::from_bytes("Content-Type", CONTENT_TYPE) {
        Ok(header) => answer.with_header(header),
        Err(()) => answer,
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut family = |name: &str, help: &str, unit: Option<Unit>, kind, write: Write<'_>| {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for (key, totals) in &state.vms {
                write(&mut family, key, totals)?;
            }
            Ok::<(), fmt::Error>(())
        };
        family("vm", "A machine on this host", None, MetricType::Gauge, &|family, key, totals| {
            let (name, pid) = (key.0.as_str(), key.1.to_string());
            let labels = [("vm", name), ("pid", &pid), ("kind", totals.kind.as_str())];
            family.encode_family(&labels)?.encode_gauge(&1i64)
        })?;
        let seconds = || Some(Unit::Seconds);
        family(
            "cpu",
            "Run time of a machine's threads",
            seconds(),
            MetricType::Counter,
            &|family, key, totals| {
                totals.threads.iter().try_for_each(|(thread, of)| {
                    counter(family, key, Some(("thread", thread)), of.cpu_ns as f64 / 1e9)
                })
            },
        )?;
        family(
            "wake_to_run",
            "From being woken to running",
            seconds(),
            MetricType::Histogram,
            &|family, key, totals| {
                totals.threads.iter().try_for_each(|(thread, of)| {
                    histogram(family, key, Some(("thread", thread)), &of.woken)
                })
            },
        )?;
        family(
            "preempted_to_run",
            "From being preempted to running again",
            seconds(),
            MetricType::Histogram,
            &|family, key, totals| {
                totals.threads.iter().try_for_each(|(thread, of)| {
                    histogram(family, key, Some(("thread", thread)), &of.preempted)
                })
            },
        )?;
        family(
            "waited_for",
            "What a machine's threads waited while somebody else ran, by whom",
            seconds(),
            MetricType::Counter,
            &|family, key, totals| {
                totals.blame.iter().try_for_each(|(by, ns)| {
                    counter(family, key, Some(("by", by)), *ns as f64 / 1e9)
                })
            },
        )?;
        family(
            "throttled_periods",
            "Periods in which a machine's quota stopped it",
            None,
            MetricType::Counter,
            &|family, key, totals| counter(family, key, None, totals.throttled_periods as f64),
        )?;
        family(
            "throttled",
            "For how long a machine's quota stopped it",
            seconds(),
            MetricType::Counter,
            &|family, key, totals| counter(family, key, None, totals.throttled_ns as f64 / 1e9),
        )?;
        family(
            "sent",
            "What a machine sent through the uplinks",
            Some(Unit::Bytes),
            MetricType::Counter,
            &|family, key, totals| match &totals.network {
                Some(network) => counter(family, key, None, network.bytes as f64),
                None => Ok(()),
            },
        )?;
        family(
            "uplink_queue",
            "Time of a machine's packets in the queues of uplinks",
            seconds(),
            MetricType::Histogram,
            &|family, key, totals| match &totals.network {
                Some(network) => histogram(family, key, None, &network.queue),
                None => Ok(()),
            },
        )?;
        family(
            "beyond_uplink",
            "Round trip beyond the uplink",
            seconds(),
            MetricType::Histogram,
            &|family, key, totals| match &totals.network {
                Some(network) => histogram(family, key, None, &network.beyond),
                None => Ok(()),
            },
        )?;
        family(
            "dropped_packets",
            "Packets of a machine that the host dropped, by the kernel's reason",
            None,
            MetricType::Counter,
            &|family, key, totals| {
                totals.drops.iter().try_for_each(|(reason, packets)| {
                    counter(family, key, Some(("reason", reason)), *packets as f64)
                })
            },
        )?;
        family(
            "trouble",
            "What hurts a machine now: p99 in microseconds, percent (starved, throttled), packets (dropped)",
            None,
            MetricType::Gauge,
            &|family, key, totals| {
                totals.troubles.iter().try_for_each(|(trouble, amount)| {
                    let pid = key.1.to_string();
                    let labels = [("vm", key.0.as_str()), ("pid", &pid), ("trouble", trouble)];
                    family.encode_family(&labels)?.encode_gauge(amount)
                })
            },
        )?;
        let help = "What the programs in the kernel had no room for";
        let mut lost = encoder.encode_descriptor("not_seen", help, None, MetricType::Counter)?;
        let all = [
            ("waits", state.lost.waits),
            ("blame", state.lost.blame),
            ("packets", state.lost.packets),
            ("threads", state.lost.threads),
        ];
        all.iter().try_for_each(|(what, count)| {
            let none: Option<&NoExemplar<'_>> = None;
            lost.encode_family(&[("what", *what)])?.encode_counter(count, none)
        })
    }
}

/// Writes the series of one machine.
type Write<'a> = &'a dyn Fn(&mut MetricEncoder<'_>, &Key, &Totals) -> fmt::Result;

fn labels<'a>(
    key: &'a Key,
    pid: &'a str,
    more: Option<(&'a str, &'a str)>,
) -> Vec<(&'a str, &'a str)> {
    let mut labels = vec![("vm", key.0.as_str()), ("pid", pid)];
    labels.extend(more);
    labels
}

fn counter(
    family: &mut MetricEncoder<'_>,
    key: &Key,
    more: Option<(&str, &str)>,
    value: f64,
) -> fmt::Result {
    let pid = key.1.to_string();
    let labels = labels(key, &pid, more);
    let none: Option<&NoExemplar<'_>> = None;
    family.encode_family(&labels)?.encode_counter(&value, none)
}

fn histogram(
    family: &mut MetricEncoder<'_>,
    key: &Key,
    more: Option<(&str, &str)>,
    waits: &Histogram,
) -> fmt::Result {
    let mut buckets: Vec<(f64, u64)> =
        (0..DOUBLINGS).map(|e| (f64::from(1u32 << e) / 1e6, 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for (bucket, &count) in waits.buckets().iter().enumerate() {
        // A bucket belongs below the first bound that is not within it.
        let (_, next_ns) = Histogram::bounds_ns(bucket);
        let below = buckets.partition_point(|(bound, _)| bound * 1e9 < (next_ns - 1) as f64);
        buckets[below.min(DOUBLINGS as usize)].1 += u64::from(count);
    }
    let pid = key.1.to_string();
    let labels = labels(key, &pid, more);
    let none: Option<&HashMap<usize, NoExemplar<'_>>> = None;
    let sum = waits.sum_ns() as f64 / 1e9;
    family.encode_family(&labels)?.encode_histogram(sum, waits.count(), &buckets, none)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write as _};
    use std::net::TcpStream;

    use lowtail_live::observe::Diagnosis;

    use super::*;
    use crate::host::example::snapshot;

    #[test]
    fn totals_grow_and_are_served() {
        let (metrics, mut diagnosis) = (Metrics::default(), Diagnosis::default());
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
        for line in [
            "200 OK",
            "application/openmetrics-text",
            // 200 ms in each interval.
            "lowtail_cpu_seconds_total{vm=\"web\\\\u{1b}[2J\",pid=\"10\",thread=\"vcpu0\"} 0.4\n",
            "lowtail_waited_for_seconds_total{vm=\"web\\\\u{1b}[2J\",pid=\"10\",by=\"batch\"} 0.8\n",
            // 100 of 3 us and 100 of 4 ms in each interval, cumulated: `le` is an upper bound.
            "lowtail_wake_to_run_seconds_bucket{le=\"0.000004\",vm=\"web\\\\u{1b}[2J\",pid=\"10\",thread=\"vcpu0\"} 200\n",
            "lowtail_wake_to_run_seconds_bucket{le=\"0.002048\",vm=\"web\\\\u{1b}[2J\",pid=\"10\",thread=\"vcpu0\"} 200\n",
            "lowtail_wake_to_run_seconds_bucket{le=\"0.004096\",vm=\"web\\\\u{1b}[2J\",pid=\"10\",thread=\"vcpu0\"} 400\n",
            "lowtail_wake_to_run_seconds_bucket{le=\"+Inf\",vm=\"web\\\\u{1b}[2J\",pid=\"10\",thread=\"vcpu0\"} 400\n",
            "lowtail_wake_to_run_seconds_sum{vm=\"web\\\\u{1b}[2J\",pid=\"10\",thread=\"vcpu0\"} 0.8006\n",
            "lowtail_dropped_packets_total{vm=\"web\\\\u{1b}[2J\",pid=\"10\",reason=\"QDISC_DROP\"} 4.0\n",
            "trouble=\"late\"",
            "# EOF\n",
        ] {
            assert!(text.contains(line), "`{line}` is not in:\n{text}");
        }
        assert!(ask("/").contains("404"));
        metrics.add(&Snapshot::default(), &[]);
        assert!(!ask("/metrics").contains("web"), "a machine that is gone is not told for ever");
    }

    /// A dashboard that asks for a series that is not there shows nothing, and nobody knows why.
    #[test]
    fn the_dashboard_asks_for_what_there_is() {
        let metrics = Metrics::default();
        metrics.add(&snapshot(), &Diagnosis::default().update(&snapshot()));
        let mut registry = Registry::with_prefix("lowtail");
        registry.register_collector(Box::new(metrics));
        let mut served = String::new();
        text::encode(&mut served, &registry).expect("it can be encoded");
        let dashboard = include_str!("../../../../docs/grafana/lowtail.json");
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
}
