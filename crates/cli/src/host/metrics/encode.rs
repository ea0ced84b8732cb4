//! From totals to OpenMetrics.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lowtail_observe::Symptom;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text as openmetrics};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use super::delays::Delays;
use super::totals::{Key, Told, Vm};

/// What OpenMetrics calls itself.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// There is never one, but the encoder wants its type.
type NoExemplar<'a> = Exemplar<[(&'a str, &'a str); 0], f64>;
/// Labels and their values.
type Labels<'a> = Vec<(&'a str, String)>;

/// All that is told, as OpenMetrics' text.
pub(super) fn text(told: Arc<Told>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("lowtail");
    registry.register_collector(Box::new(Page(told)));
    let mut text = String::new();
    openmetrics::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Page(Arc<Told>);

/// Writes the series of one machine. The labels are those that all of them have.
type Write<'a> = &'a dyn Fn(&mut MetricEncoder<'_>, &Labels<'_>, &Vm) -> fmt::Result;

/// A family of metrics: its name without prefix and unit, and what it means.
struct Family(&'static str, &'static str, Option<Unit>, MetricType);

impl Page {
    fn write(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        family: Family,
        write: Write<'_>,
    ) -> fmt::Result {
        let Family(name, help, unit, kind) = family;
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for ((pid, started_ticks), vm) in &self.0.vms {
            write(&mut family, &labels((*pid, *started_ticks), vm), vm)?;
        }
        Ok(())
    }

    fn vms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let family = Family("vm", "A machine on this host", None, MetricType::Gauge);
        self.write(encoder, family, &|family, labels, vm| {
            gauge(family, with(labels, [("kind", vm.kind.clone())]), 1.0)
        })
    }

    fn threads(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = || Some(Unit::Seconds);
        let help = "Run time of a machine's threads";
        let family = Family("cpu", help, seconds(), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            vm.threads.iter().try_for_each(|(role, of)| {
                let labels = with(labels, [("thread", role.clone())]);
                counter(family, labels, of.cpu_ns as f64 / 1e9)
            })
        })?;
        let family =
            Family("wake_to_run", "From being woken to running", seconds(), MetricType::Histogram);
        self.write(encoder, family, &|family, labels, vm| {
            vm.threads.iter().try_for_each(|(role, of)| {
                histogram(family, with(labels, [("thread", role.clone())]), &of.woken)
            })
        })?;
        let help = "From being preempted to running again";
        let family = Family("preempted_to_run", help, seconds(), MetricType::Histogram);
        self.write(encoder, family, &|family, labels, vm| {
            vm.threads.iter().try_for_each(|(role, of)| {
                histogram(family, with(labels, [("thread", role.clone())]), &of.preempted)
            })
        })?;
        let help = "What a machine's threads waited while somebody else ran, by whom";
        let family = Family("waited_for", help, seconds(), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            vm.waited_for.iter().try_for_each(|(by, ns)| {
                let who = [("by", by.name.clone()), ("by_kind", by.kind.to_string())];
                let mut labels = with(labels, who);
                labels.extend(by.pid.map(|pid| ("by_pid", pid.to_string())));
                counter(family, labels, *ns as f64 / 1e9)
            })
        })
    }

    fn quotas(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Periods in which a machine's quota stopped it";
        let family = Family("throttled_periods", help, None, MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            counter(family, labels.clone(), vm.throttled_periods as f64)
        })?;
        let help = "For how long a machine's quota stopped it";
        let family = Family("throttled", help, Some(Unit::Seconds), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            counter(family, labels.clone(), vm.throttled_ns as f64 / 1e9)
        })
    }

    fn network(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "What a machine sent through the uplinks";
        let family = Family("sent", help, Some(Unit::Bytes), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            vm.network
                .iter()
                .try_for_each(|network| counter(family, labels.clone(), network.bytes as f64))
        })?;
        let help = "Time of a machine's packets in the queues of uplinks";
        let family = Family("uplink_queue", help, Some(Unit::Seconds), MetricType::Histogram);
        self.write(encoder, family, &|family, labels, vm| {
            vm.network
                .iter()
                .try_for_each(|network| histogram(family, labels.clone(), &network.queue))
        })?;
        let help = "Round trip beyond the uplink";
        let family = Family("beyond_uplink", help, Some(Unit::Seconds), MetricType::Histogram);
        self.write(encoder, family, &|family, labels, vm| {
            vm.network
                .iter()
                .try_for_each(|network| histogram(family, labels.clone(), &network.beyond))
        })?;
        let help = "Packets of a machine that the host dropped, by the kernel's reason";
        let family = Family("dropped_packets", help, None, MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            let drops = vm.network.iter().flat_map(|network| &network.drops);
            drops.into_iter().try_for_each(|(reason, packets)| {
                let labels = with(labels, [("reason", reason.clone())]);
                counter(family, labels, *packets as f64)
            })
        })
    }

    /// Three metrics, as there are three units.
    fn symptoms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let other = |unit: &str| Some(Unit::Other(unit.to_string()));
        let kinds = [
            ("trouble_p99", "What hurts a machine now: p99 of its waits", Some(Unit::Seconds)),
            (
                "trouble",
                "What hurts a machine now: the share that it waits or stands",
                other("ratio"),
            ),
            (
                "trouble_dropped",
                "What hurts a machine now: packets of the last interval",
                other("packets"),
            ),
        ];
        for (number, (name, help, unit)) in kinds.into_iter().enumerate() {
            let family = Family(name, help, unit, MetricType::Gauge);
            self.write(encoder, family, &|family, labels, vm| {
                vm.symptoms.iter().try_for_each(|(symptom, amount)| {
                    let (kind, value) = in_base_units(*symptom, *amount);
                    if kind != number {
                        return Ok(());
                    }
                    gauge(family, with(labels, [("trouble", symptom.name().to_string())]), value)
                })
            })?;
        }
        Ok(())
    }

    fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "What the programs in the kernel had no room for";
        let mut family = encoder.encode_descriptor("not_seen", help, None, MetricType::Counter)?;
        let lost = self.0.lost;
        for (what, count) in [
            ("waits", lost.waits),
            ("blame", lost.blame),
            ("packets", lost.packets),
            ("threads", lost.threads),
        ] {
            let none: Option<&NoExemplar<'_>> = None;
            family.encode_family(&[("what", what)])?.encode_counter(&count, none)?;
        }
        let help = "What the last interval had beyond what is told here by name: machines are not \
                    told, threads and names (of who was waited for) are told as others";
        let mut family = encoder.encode_descriptor("left_out", help, None, MetricType::Gauge)?;
        let left_out = self.0.left_out;
        for (what, count) in
            [("machines", left_out.vms), ("threads", left_out.threads), ("names", left_out.names)]
        {
            family.encode_family(&[("what", what)])?.encode_gauge(&count)?;
        }
        Ok(())
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.vms(&mut encoder)?;
        self.threads(&mut encoder)?;
        self.quotas(&mut encoder)?;
        self.network(&mut encoder)?;
        self.symptoms(&mut encoder)?;
        self.limits(&mut encoder)
    }
}

/// Which of the three metrics of troubles it is in, and its value in seconds, as a ratio or in packets.
fn in_base_units(symptom: Symptom, amount: f64) -> (usize, f64) {
    match symptom {
        Symptom::Late | Symptom::BackEndLate | Symptom::Queued | Symptom::RemoteLatency => {
            (0, amount / 1e6)
        }
        Symptom::Starved | Symptom::Throttled => (1, amount / 100.0),
        Symptom::Dropped => (2, amount),
    }
}

/// The labels that say which machine it is. Its process's number is used again, its name as it likes; with the time of
/// its start there is one.
fn labels(key: Key, vm: &Vm) -> Labels<'static> {
    let (pid, started_ticks) = (key.0.to_string(), key.1.to_string());
    vec![("vm", vm.name.clone()), ("pid", pid), ("started_ticks", started_ticks)]
}

fn with<'a, const N: usize>(labels: &Labels<'a>, more: [(&'a str, String); N]) -> Labels<'a> {
    labels.iter().cloned().chain(more).collect()
}

fn gauge(family: &mut MetricEncoder<'_>, labels: Labels<'_>, value: f64) -> fmt::Result {
    family.encode_family(&labels)?.encode_gauge(&value)
}

fn counter(family: &mut MetricEncoder<'_>, labels: Labels<'_>, value: f64) -> fmt::Result {
    let none: Option<&NoExemplar<'_>> = None;
    family.encode_family(&labels)?.encode_counter(&value, none)
}

fn histogram(family: &mut MetricEncoder<'_>, labels: Labels<'_>, delays: &Delays) -> fmt::Result {
    let none: Option<&HashMap<usize, NoExemplar<'_>>> = None;
    let mut family = family.encode_family(&labels)?;
    family.encode_histogram(delays.sum_s(), delays.count(), &delays.buckets(), none)
}
