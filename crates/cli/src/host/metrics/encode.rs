//! From totals to OpenMetrics.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lowtail_observe as finding;
use lowtail_out::seconds;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text as openmetrics};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use super::blame::By;
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

/// Writes the series of one VM. The labels are those that all of them have.
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
        let family = Family("vm", "A VM on this host", None, MetricType::Info);
        self.write(encoder, family, &|family, labels, vm| {
            family.encode_family(labels)?.encode_info(&[("kind", vm.kind.as_str())])
        })
    }

    fn run_queue(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.counter(encoder, "vcpu_run_time", "Run time of the vCPUs", |vm| {
            vm.vcpus.seen().map(|of| of.run_time_ns)
        })?;
        let help = "Run time of the threads that serve the devices";
        self.counter(encoder, "backend_run_time", help, |vm| {
            vm.backend.seen().map(|of| of.run_time_ns)
        })?;
        let help = "Run time of all other threads";
        self.counter(encoder, "worker_run_time", help, |vm| {
            vm.workers.seen().map(|of| of.run_time_ns)
        })?;
        let help = "Ready time of the vCPUs: they wanted a CPU and had none";
        self.counter(encoder, "vcpu_ready", help, |vm| vm.vcpus.seen().map(|of| of.ready_ns))?;
        let help = "Wake-up latency of the vCPUs";
        self.histogram(encoder, "vcpu_wakeup_latency", help, |vm| {
            vm.vcpus.seen().map(|of| &of.wakeup_latency)
        })?;
        let help = "Preemption latency of the vCPUs";
        self.histogram(encoder, "vcpu_preemption_latency", help, |vm| {
            vm.vcpus.seen().map(|of| &of.preemption_latency)
        })?;
        let help = "Wake-up latency of the threads that serve the devices";
        self.histogram(encoder, "backend_latency", help, |vm| {
            vm.backend.seen().map(|of| &of.wakeup_latency)
        })?;
        let help = "Ready time of a VM's threads, by who ran on the CPU that they waited for";
        let family = Family("vm_blame", help, Some(Unit::Seconds), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            vm.blame
                .iter()
                .try_for_each(|(by, ns)| counter(family, with_by(labels, by), seconds::of_ns(*ns)))
        })
    }

    /// Only on request: a host of 100 VMs has thousands of threads.
    fn threads(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.vms.iter().all(|(_, vm)| vm.threads.is_empty()) {
            return Ok(());
        }
        let family = |name, help, kind| Family(name, help, Some(Unit::Seconds), kind);
        let run_time = family("thread_run_time", "Run time by thread", MetricType::Counter);
        self.write(encoder, run_time, &|family, labels, vm| {
            vm.threads.iter().try_for_each(|(role, of)| {
                let labels = with(labels, [("thread", role.clone())]);
                counter(family, labels, seconds::of_ns(of.run_time_ns))
            })
        })?;
        let help = "Wake-up latency by thread";
        let wakeup = family("thread_wakeup_latency", help, MetricType::Histogram);
        self.write(encoder, wakeup, &|family, labels, vm| {
            vm.threads.iter().try_for_each(|(role, of)| {
                histogram(family, with(labels, [("thread", role.clone())]), &of.wakeup_latency)
            })
        })?;
        let help = "Preemption latency by thread";
        let preemption = family("thread_preemption_latency", help, MetricType::Histogram);
        self.write(encoder, preemption, &|family, labels, vm| {
            vm.threads.iter().try_for_each(|(role, of)| {
                histogram(family, with(labels, [("thread", role.clone())]), &of.preemption_latency)
            })
        })
    }

    fn quotas(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Periods in which a CPU quota of the VM ran out";
        let family = Family("vm_throttled_periods", help, None, MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            counter(family, labels.clone(), vm.throttled_periods as f64)
        })?;
        let help = "Time for which a CPU quota stopped the VM, on all CPUs together";
        self.counter(encoder, "vm_throttled", help, |vm| Some(vm.throttled_ns))
    }

    fn network(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Bytes that the VM transmitted through the uplinks";
        let family = Family("vm_transmitted", help, Some(Unit::Bytes), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            vm.network.iter().try_for_each(|network| {
                counter(family, labels.clone(), network.transmitted_bytes as f64)
            })
        })?;
        let help = "Queueing delay of the VM's packets at the uplinks";
        self.histogram(encoder, "vm_queueing_delay", help, |vm| {
            vm.network.as_ref().map(|network| &network.queueing_delay)
        })?;
        let help = "Bytes that left while packets of the VM waited at an uplink, by whose they were: of a \
                    sample of the packets";
        self.bytes_by(encoder, "vm_queue_blame", help, |vm| &vm.queue_blame)?;
        let help = "Bytes that the VM received from its taps, by whose they were";
        self.bytes_by(encoder, "vm_received", help, |vm| &vm.received)?;
        let help = "Queueing delay of packets to the VM in its taps, until its back end takes them";
        self.histogram(encoder, "vm_receive_queueing_delay", help, |vm| {
            vm.network.as_ref().map(|network| &network.receive_queueing_delay)
        })?;
        let help = "Bytes that the back end took while packets to the VM waited in its taps, by whose they \
                    were: of a sample of the packets";
        self.bytes_by(encoder, "vm_receive_queue_blame", help, |vm| &vm.receive_queue_blame)?;
        let help = "Bytes that an uplink has sent, by whose they were";
        let kind = MetricType::Counter;
        let mut family =
            encoder.encode_descriptor("uplink_transmitted", help, Some(&Unit::Bytes), kind)?;
        for (uplink, senders) in &self.0.uplinks {
            let labels = vec![("uplink", uplink.clone())];
            for (by, bytes) in senders {
                counter(&mut family, with_by(&labels, by), *bytes as f64)?;
            }
        }
        let help = "Round trip beyond the uplink";
        self.histogram(encoder, "vm_round_trip", help, |vm| {
            vm.network.as_ref().map(|network| &network.round_trip)
        })?;
        let help = "Packets of the VM that the host dropped, by the kernel's reason";
        let family = Family("vm_dropped_packets", help, None, MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            let drops = vm.network.iter().flat_map(|network| &network.drops);
            drops.into_iter().try_for_each(|(reason, packets)| {
                let labels = with(labels, [("reason", reason.clone())]);
                counter(family, labels, *packets as f64)
            })
        })
    }

    /// Three metrics, as there are three units.
    fn findings(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let other = |unit: &str| Some(Unit::Other(unit.to_string()));
        let units = [
            (finding::Unit::Seconds, "Findings now: p99 of the delays", Some(Unit::Seconds)),
            (finding::Unit::Ratio, "Findings now: ratio of time or of periods", other("ratio")),
            (finding::Unit::Packets, "Findings now: packets in the interval", other("packets")),
        ];
        for (of, help, unit) in units {
            let family = Family("vm_finding", help, unit, MetricType::Gauge);
            self.write(encoder, family, &|family, labels, vm| {
                let symptoms = vm.symptoms.iter().filter(|(symptom, _)| symptom.unit() == of);
                symptoms.into_iter().try_for_each(|(symptom, value)| {
                    let name = symptom.name().to_string();
                    gauge(family, with(labels, [("symptom", name)]), *value)
                })
            })?;
        }
        Ok(())
    }

    /// A counter of bytes, for each VM a series of everybody whose they were.
    fn bytes_by(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &'static str,
        help: &'static str,
        bytes: impl Fn(&Vm) -> &[(By, u64)],
    ) -> fmt::Result {
        let family = Family(name, help, Some(Unit::Bytes), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            let mut all = bytes(vm).iter();
            all.try_for_each(|(by, bytes)| counter(family, with_by(labels, by), *bytes as f64))
        })
    }

    /// A counter of seconds, one series a VM that has it.
    fn counter(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &'static str,
        help: &'static str,
        ns: impl Fn(&Vm) -> Option<u64>,
    ) -> fmt::Result {
        let family = Family(name, help, Some(Unit::Seconds), MetricType::Counter);
        self.write(encoder, family, &|family, labels, vm| {
            ns(vm).map_or(Ok(()), |ns| counter(family, labels.clone(), seconds::of_ns(ns)))
        })
    }

    /// A histogram of seconds, one a VM that has it.
    fn histogram(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &'static str,
        help: &'static str,
        delays: impl Fn(&Vm) -> Option<&Delays>,
    ) -> fmt::Result {
        let family = Family(name, help, Some(Unit::Seconds), MetricType::Histogram);
        self.write(encoder, family, &|family, labels, vm| {
            delays(vm).map_or(Ok(()), |delays| histogram(family, labels.clone(), delays))
        })
    }

    fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Events that the BPF programs lost: the figures lack them";
        let mut family = encoder.encode_descriptor("lost", help, None, MetricType::Counter)?;
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
        let help = "What the last interval had and no series names: VMs have no series, threads and \
                    names in the blame are in the series `others`";
        let mut family =
            encoder.encode_descriptor("not_exported", help, None, MetricType::Gauge)?;
        let left_out = self.0.left_out;
        for (what, count) in
            [("vms", left_out.vms), ("threads", left_out.threads), ("names", left_out.names)]
        {
            family.encode_family(&[("what", what)])?.encode_gauge(&count)?;
        }
        Ok(())
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.vms(&mut encoder)?;
        self.run_queue(&mut encoder)?;
        self.threads(&mut encoder)?;
        self.quotas(&mut encoder)?;
        self.network(&mut encoder)?;
        self.findings(&mut encoder)?;
        self.limits(&mut encoder)
    }
}

/// The labels that say which VM it is. Its process's number is used again, its name as it likes; with the time of
/// its start there is one.
fn labels(key: Key, vm: &Vm) -> Labels<'static> {
    let (pid, started_ticks) = (key.0.to_string(), key.1.to_string());
    vec![("vm", vm.name.clone()), ("pid", pid), ("started_ticks", started_ticks)]
}

fn with<'a, const N: usize>(labels: &Labels<'a>, more: [(&'a str, String); N]) -> Labels<'a> {
    labels.iter().cloned().chain(more).collect()
}

/// With whoever is to blame: what kind of thing it is stands beside its name.
fn with_by<'a>(labels: &Labels<'a>, by: &By) -> Labels<'a> {
    let who = [("by", by.name.clone()), ("by_kind", by.kind.to_string())];
    let mut labels = with(labels, who);
    labels.extend(by.pid.map(|pid| ("by_pid", pid.to_string())));
    labels
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
