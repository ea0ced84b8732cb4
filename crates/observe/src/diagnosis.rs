//! Which VM hurts, in which of the three queues, because of whom, and since when.

use std::collections::HashMap;

use lowtail_engine::Duration;
use lowtail_out::seconds;
use serde::Serialize;

use super::{Histogram, QueueBlame, Runner, Sender, Snapshot, VmSnapshot};
use lowtail_discover::Role;
use lowtail_kernel::Name;
use lowtail_trace::Reason;

/// Where a VM's requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// For a CPU: the run queue of its vCPUs.
    RunQueue,
    /// In the host: its back end's threads, and the queue of the uplink.
    Host,
    /// Beyond the uplink: switches, and whoever answers.
    Network,
}

/// From when on a wait is one that hurts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A vCPU, from being woken to running.
    pub cpu: Duration,
    /// A back end's thread from being woken to running, and a packet in the uplink's queue.
    pub host: Duration,
    /// The round trip beyond the uplink.
    pub round_trip: Duration,
}

impl Default for Thresholds {
    /// A millisecond in the host, which is where a request that takes tenths of one is no longer served
    /// as if its VM were alone; ten beyond it, since a network's distance is no queue.
    fn default() -> Self {
        let ms = Duration::from_ms;
        Thresholds { cpu: ms(1), host: ms(1), round_trip: ms(10) }
    }
}

/// One in so many waits has to be too long, and [`LATE_MIN`] at least: a single one is no trap.
const LATE_ONE_IN: u64 = 100;
/// So many too long waits in an interval at least.
const LATE_MIN: u64 = 3;
/// A VM that computes is starved if its ready time is more than this share of its run and ready time.
const STARVED_RATIO: f64 = 0.25;
/// So long does a finding last that is not confirmed: intervals differ by chance.
const CLEAN_INTERVALS: u32 = 3;
/// Causes of one finding that are told.
const CAUSES_MAX: usize = 5;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symptom {
    /// Its vCPUs run late after being woken.
    WakeupLatency,
    /// Its vCPUs have work, and do not get the time.
    ReadyTime,
    /// Its own quota stops it.
    Throttling,
    /// Threads of its back end run late.
    BackendLatency,
    /// Its packets wait in the uplink's queue.
    QueueingDelay,
    /// Packets to it wait in its tap.
    ReceiveQueueingDelay,
    /// Its packets are dropped in the host.
    Drops,
    /// Answers take long beyond the uplink.
    RoundTrip,
}

impl Symptom {
    /// Its name in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Symptom::WakeupLatency => "wakeup-latency",
            Symptom::ReadyTime => "ready-time",
            Symptom::Throttling => "throttling",
            Symptom::BackendLatency => "backend-latency",
            Symptom::QueueingDelay => "queueing-delay",
            Symptom::ReceiveQueueingDelay => "receive-queueing-delay",
            Symptom::Drops => "drops",
            Symptom::RoundTrip => "round-trip",
        }
    }

    /// Whether it is one of packets, for which senders are the cause.
    fn is_of_packets(self) -> bool {
        matches!(self, Symptom::QueueingDelay | Symptom::ReceiveQueueingDelay)
    }

    /// What its value counts.
    pub fn unit(self) -> Unit {
        match self {
            Symptom::WakeupLatency
            | Symptom::BackendLatency
            | Symptom::QueueingDelay
            | Symptom::ReceiveQueueingDelay
            | Symptom::RoundTrip => Unit::Seconds,
            Symptom::ReadyTime | Symptom::Throttling => Unit::Ratio,
            Symptom::Drops => Unit::Packets,
        }
    }

    /// In which of the three queues.
    pub fn queue(self) -> Queue {
        match self {
            Symptom::WakeupLatency | Symptom::ReadyTime | Symptom::Throttling => Queue::RunQueue,
            Symptom::BackendLatency
            | Symptom::QueueingDelay
            | Symptom::ReceiveQueueingDelay
            | Symptom::Drops => Queue::Host,
            Symptom::RoundTrip => Queue::Network,
        }
    }
}

/// What an value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds: the p99 of the delays.
    Seconds,
    /// A ratio, 0 to 1: of run and ready time, or of periods.
    Ratio,
    /// Packets in the interval.
    Packets,
}

/// For whom, and how much of the waiting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Who.
    #[serde(flatten)]
    pub culprit: Culprit,
    /// Their part, 0 to 1: of the ready time, or of the bytes that left before the VM's packets.
    pub ratio: f64,
    /// Why a runner ran most of that time and the VM did not, where the hypervisor's own records say so (Xen).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What a sender sends, through the uplink where it sends most, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<f64>,
}

/// Who keeps a VM waiting.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Culprit {
    /// Who ran on its CPU.
    Runner(Runner),
    /// Whose packets were before its own.
    Sender(Sender),
}

/// One trouble of one VM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The VM.
    pub vm: Name,
    /// Its process; with `started_ticks` unique.
    pub pid: u32,
    /// When that process started, in clock ticks since boot.
    pub started_ticks: u64,
    /// In which queue.
    pub queue: Queue,
    /// What is wrong.
    pub symptom: Symptom,
    /// How large it is: p99 of the delays in seconds; for ready time and throttling a ratio, for drops packets in the interval.
    pub value: f64,
    /// From which value on it is a finding: the user's limit, or lowtail's own.
    pub limit: f64,
    /// The unit of `value` and `limit`.
    pub unit: Unit,
    /// Because of whom, most first. Empty where nobody else has to do with it.
    pub causes: Vec<Cause>,
    /// For how long, in milliseconds (JSON: seconds), by a clock that nobody sets.
    #[serde(rename = "duration_seconds", serialize_with = "seconds::ms")]
    pub duration_ms: f64,
}

/// Looks at one interval after the other.
#[derive(Debug, Default)]
pub struct Diagnosis {
    thresholds: Thresholds,
    open: HashMap<(u32, u64, Symptom), Open>,
}

/// A trouble that goes on.
#[derive(Debug)]
struct Open {
    duration_ms: f64,
    clean: u32,
    /// For how many intervals its causes are those of an earlier one.
    kept: u32,
    last: Finding,
}

impl Diagnosis {
    /// With thresholds of the user's.
    pub fn new(thresholds: Thresholds) -> Self {
        Diagnosis { thresholds, open: HashMap::new() }
    }

    /// The findings now, by VM, queue and symptom. One that is not confirmed in this interval is kept for two more, with its last
    /// figures.
    pub fn update(&mut self, snapshot: &Snapshot) -> Vec<Finding> {
        let mut findings = Vec::new();
        for vm in &snapshot.vms {
            for found in look(vm, snapshot, &self.thresholds) {
                let key = (vm.pid, vm.started_ticks, found.symptom);
                let before = self.open.remove(&key);
                let since_ms = before.as_ref().map_or(0.0, |open| open.duration_ms);
                let duration_ms = since_ms + snapshot.interval_ms;
                // A short interval may have no packet that was followed.
                let (causes, kept) = match before {
                    Some(open)
                        if found.causes.is_empty()
                            && found.symptom.is_of_packets()
                            && open.kept < CLEAN_INTERVALS =>
                    {
                        let rate = |sender: &Sender| rate_of(found.symptom, sender, vm, snapshot);
                        (renewed(open.last.causes, snapshot, rate), open.kept + 1)
                    }
                    _ => (found.causes, 0),
                };
                let last = Finding { duration_ms, causes, ..found };
                findings.push((key, Open { duration_ms, clean: 0, kept, last }));
            }
        }
        // A VM that is gone has no troubles left.
        let here = |key: &(u32, u64, Symptom)| {
            snapshot.vms.iter().any(|vm| !vm.ended && (vm.pid, vm.started_ticks) == (key.0, key.1))
        };
        for (key, mut open) in self.open.drain() {
            open.clean += 1;
            open.duration_ms += snapshot.interval_ms;
            if open.clean < CLEAN_INTERVALS && here(&key) {
                findings.push((key, open));
            }
        }
        let mut told: Vec<Finding> = findings.iter().map(|(_, open)| open.last.clone()).collect();
        told.sort_by(|a, b| {
            (&a.vm, a.pid, a.queue, a.symptom).cmp(&(&b.vm, b.pid, b.queue, b.symptom))
        });
        self.open.extend(findings);
        told
    }
}

/// Causes of an earlier interval: who is gone is none any more, and rates are those of now.
fn renewed(causes: Vec<Cause>, snapshot: &Snapshot, rate: impl Fn(&Sender) -> f64) -> Vec<Cause> {
    let here = |pid: u32| snapshot.vms.iter().any(|vm| vm.pid == pid);
    let renew = |cause: Cause| match &cause.culprit {
        Culprit::Sender(Sender::Vm(_, pid)) if !here(*pid) => None,
        Culprit::Sender(sender) => Some(Cause { bits_per_second: Some(rate(sender)), ..cause }),
        Culprit::Runner(_) => Some(cause),
    };
    causes.into_iter().filter_map(renew).collect()
}

/// The troubles of one VM in one interval.
fn look(vm: &VmSnapshot, snapshot: &Snapshot, thresholds: &Thresholds) -> Vec<Finding> {
    let interval_ms = snapshot.interval_ms;
    let mut found = Vec::new();
    let s = |limit: Duration| seconds::of_ns(limit.as_ns());
    let mut tell = |symptom: Symptom, value: f64, causes: Vec<Cause>| {
        let (name, queue) = (vm.name.clone(), symptom.queue());
        let limit = match symptom {
            Symptom::WakeupLatency => s(thresholds.cpu),
            Symptom::BackendLatency | Symptom::QueueingDelay | Symptom::ReceiveQueueingDelay => {
                s(thresholds.host)
            }
            Symptom::RoundTrip => s(thresholds.round_trip),
            Symptom::ReadyTime => STARVED_RATIO,
            Symptom::Throttling => 0.0,
            Symptom::Drops => LATE_MIN as f64,
        };
        let (pid, started_ticks) = (vm.pid, vm.started_ticks);
        let (unit, duration_ms) = (symptom.unit(), 0.0);
        found.push(Finding {
            vm: name,
            pid,
            started_ticks,
            queue,
            symptom,
            value,
            limit,
            unit,
            causes,
            duration_ms,
        });
    };
    let (mut late, mut back_end) = (Histogram::default(), Histogram::default());
    let mut wanted_ns = 0;
    for thread in &vm.threads {
        match thread.role {
            Role::Vcpu(_) => {
                late.merge(&thread.wakeup_latency);
                wanted_ns += thread.run_time_ns + thread.ready_ns();
            }
            Role::Vhost(_) | Role::IoThread(_) | Role::Emulator => {
                back_end.merge(&thread.wakeup_latency);
            }
            Role::Worker => {}
        }
    }
    let vcpu = |role: &Role| matches!(role, Role::Vcpu(_));
    if hurts(&late, thresholds.cpu) {
        tell(Symptom::WakeupLatency, p99_s(&late), causes(vm, vcpu));
    }
    // Who hardly wants to run is not starved; that it runs late has been told.
    let wants = wanted_ns as f64 / 1e6 > interval_ms / 10.0;
    let ratio = vm.ready_ratio().unwrap_or(0.0);
    if ratio > STARVED_RATIO && wants {
        tell(Symptom::ReadyTime, ratio, causes(vm, vcpu));
    }
    let periods: u64 = vm.throttled.iter().map(|group| group.periods).sum();
    let throttled: u64 = vm.throttled.iter().map(|group| group.throttled_periods).sum();
    if throttled >= LATE_MIN.min(periods) && throttled > 0 {
        let culprit = Culprit::Runner(Runner::Quota);
        let cause = Cause { culprit, ratio: 1.0, reason: None, bits_per_second: None };
        tell(Symptom::Throttling, throttled as f64 / periods.max(1) as f64, vec![cause]);
    }
    if hurts(&back_end, thresholds.host) {
        let serves =
            |role: &Role| matches!(role, Role::Vhost(_) | Role::IoThread(_) | Role::Emulator);
        tell(Symptom::BackendLatency, p99_s(&back_end), causes(vm, serves));
    }
    if let Some(network) = &vm.network {
        if hurts(&network.queueing_delay, thresholds.host) {
            let symptom = Symptom::QueueingDelay;
            let rate = |sender: &Sender| rate_of(symptom, sender, vm, snapshot);
            tell(symptom, p99_s(&network.queueing_delay), senders(&network.queue_blame, rate));
        }
        if hurts(&network.receive_queueing_delay, thresholds.host) {
            let symptom = Symptom::ReceiveQueueingDelay;
            let rate = |sender: &Sender| rate_of(symptom, sender, vm, snapshot);
            let causes = senders(&network.receive_queue_blame, rate);
            tell(symptom, p99_s(&network.receive_queueing_delay), causes);
        }
        let drops: u64 = network.drops.iter().map(|drop| drop.packets).sum();
        if drops >= LATE_MIN && drops * LATE_ONE_IN >= network.transmitted_packets {
            tell(Symptom::Drops, drops as f64, Vec::new());
        }
        if hurts(&network.round_trip, thresholds.round_trip) {
            tell(Symptom::RoundTrip, p99_s(&network.round_trip), Vec::new());
        }
    }
    found
}

/// Whether enough of these waits are too long.
fn hurts(waits: &Histogram, threshold: Duration) -> bool {
    let late = waits.at_least(threshold.as_ns());
    late >= LATE_MIN && late * LATE_ONE_IN >= waits.count()
}

fn p99_s(waits: &Histogram) -> f64 {
    seconds::of_us(waits.percentile_us(0.99).unwrap_or(0.0))
}

/// Because of whom the threads of these roles waited.
fn causes(vm: &VmSnapshot, role: impl Fn(&Role) -> bool) -> Vec<Cause> {
    let mut all: Vec<(&Runner, u64)> = Vec::new();
    let mut reasons: Vec<(&Runner, Reason, u64)> = Vec::new();
    for blame in vm.threads.iter().filter(|t| role(&t.role)).flat_map(|t| &t.blame) {
        match all.iter_mut().find(|(runner, _)| *runner == &blame.runner) {
            Some((_, ns)) => *ns += blame.ready_ns,
            None => all.push((&blame.runner, blame.ready_ns)),
        }
        let Some(reason) = blame.reason else { continue };
        match reasons.iter_mut().find(|r| (r.0, r.1) == (&blame.runner, reason)) {
            Some((.., ns)) => *ns += blame.ready_ns,
            None => reasons.push((&blame.runner, reason, blame.ready_ns)),
        }
    }
    let total: u64 = all.iter().map(|(_, ns)| ns).sum();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let first_reason = |runner: &Runner| {
        let its = reasons.iter().filter(|(of, ..)| *of == runner);
        its.max_by_key(|(_, reason, ns)| (*ns, std::cmp::Reverse(*reason))).map(|r| r.1)
    };
    let cause = |(runner, ns): &(&Runner, u64)| Cause {
        culprit: Culprit::Runner((*runner).clone()),
        ratio: *ns as f64 / total.max(1) as f64,
        reason: first_reason(runner),
        bits_per_second: None,
    };
    all.iter().take(CAUSES_MAX).map(cause).collect()
}

/// What a sender sends in bits per second, where packets of the VM wait: through an uplink, or to the VM.
fn rate_of(symptom: Symptom, sender: &Sender, vm: &VmSnapshot, snapshot: &Snapshot) -> f64 {
    match (symptom, &vm.network) {
        (Symptom::ReceiveQueueingDelay, Some(network)) => {
            network.received_bits_per_second_of(sender, snapshot.interval_ms)
        }
        _ => snapshot.bits_per_second(sender),
    }
}

/// Whose bytes left before the VM's packets, and at which rate they send.
fn senders(blame: &QueueBlame, rate: impl Fn(&Sender) -> f64) -> Vec<Cause> {
    let cause = |(sender, bytes): (&Sender, u64)| Cause {
        culprit: Culprit::Sender(sender.clone()),
        ratio: bytes as f64 / blame.bytes_ahead.max(1) as f64,
        reason: None,
        bits_per_second: Some(rate(sender)),
    };
    blame.senders.iter().take(CAUSES_MAX).map(|sent| cause((&sent.sender, sent.bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blame, Network, Sent, ThreadSnapshot, Throttled, Unseen, Uplink};
    use lowtail_discover::{Kind, Origin};

    fn waits(us: &[(u64, u64)]) -> Histogram {
        let mut all = Histogram::default();
        for &(wait_us, count) in us {
            (0..count).for_each(|_| all.record(wait_us * 1_000));
        }
        all
    }

    fn vm(wakeup_latency: Histogram) -> VmSnapshot {
        let other = Runner::Vm(Name::new("batch"), 77);
        let thread = ThreadSnapshot {
            tid: 11,
            role: Role::Vcpu(0),
            comm: Name::new("CPU 0/KVM"),
            run_time_ns: 10_000_000,
            ready_after_wakeup_ns: 0,
            ready_after_preemption_ns: 0,
            wakeup_latency,
            preemption_latency: Histogram::default(),
            current_wait_ns: 0,
            blame: vec![
                Blame { runner: Runner::Kernel(Name::new("kworker")), ready_ns: 1, reason: None },
                Blame { runner: other, ready_ns: 3, reason: None },
            ],
        };
        VmSnapshot {
            name: Name::new("web"),
            kind: Kind::Qemu,
            origin: Origin::declared(),
            pid: 10,
            started_ticks: 5,
            ended: false,
            threads: vec![thread],
            throttled: Vec::new(),
            network: None,
            unseen_threads: Unseen::default(),
        }
    }

    fn interval(vm: VmSnapshot) -> Snapshot {
        Snapshot { interval_ms: 1000.0, vms: vec![vm], ..Snapshot::default() }
    }

    #[test]
    fn late_because_of_whom_and_since_when() {
        let mut diagnosis = Diagnosis::default();
        let quick = waits(&[(20, 400)]);
        assert_eq!(diagnosis.update(&interval(vm(quick.clone()))), []);
        let slow = vm(waits(&[(20, 390), (4_000, 10)]));
        let found = diagnosis.update(&interval(slow.clone()));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].queue, found[0].symptom), (Queue::RunQueue, Symptom::WakeupLatency));
        assert!((found[0].value / 0.004 - 1.0).abs() < 0.04, "{}", found[0].value);
        let batch = Culprit::Runner(Runner::Vm(Name::new("batch"), 77));
        assert_eq!(found[0].causes[0].culprit, batch);
        assert_eq!(found[0].causes[0].ratio, 0.75);
        assert_eq!(diagnosis.update(&interval(slow))[0].duration_ms, 2000.0);
        // It is kept for a while, and then forgotten.
        assert_eq!(diagnosis.update(&interval(vm(quick.clone()))).len(), 1);
        assert_eq!(diagnosis.update(&interval(vm(quick.clone()))).len(), 1);
        assert_eq!(diagnosis.update(&interval(vm(quick))), []);
    }

    #[test]
    fn a_few_late_ones_among_many_are_no_trap_and_one_is_not() {
        let mut diagnosis = Diagnosis::default();
        assert_eq!(diagnosis.update(&interval(vm(waits(&[(20, 1_000), (4_000, 9)])))), []);
        assert_eq!(diagnosis.update(&interval(vm(waits(&[(20, 10), (4_000, 2)])))), []);
    }

    #[test]
    fn each_queue_is_told_apart() {
        let mut vm = vm(waits(&[(20, 400)]));
        vm.throttled = vec![Throttled {
            group: Name::new("all"),
            periods: 10,
            throttled_periods: 5,
            throttled_ns: 1,
        }];
        let mut found = Diagnosis::default().update(&interval(vm.clone()));
        assert_eq!((found.len(), found[0].symptom), (1, Symptom::Throttling));
        let quota = Culprit::Runner(Runner::Quota);
        assert_eq!((found[0].value, &found[0].causes[0].culprit), (0.5, &quota));
        vm.throttled.clear();
        let queueing_delay = waits(&[(5_000, 100)]);
        vm.network =
            Some(Network { queueing_delay, transmitted_packets: 100, ..Network::default() });
        found = Diagnosis::default().update(&interval(vm.clone()));
        assert_eq!((found.len(), found[0].symptom), (1, Symptom::QueueingDelay));
        let round_trip = waits(&[(40_000, 100)]);
        vm.network = Some(Network { round_trip, transmitted_packets: 100, ..Network::default() });
        found = Diagnosis::default().update(&interval(vm));
        assert_eq!((found.len(), found[0].queue), (1, Queue::Network));
    }

    #[test]
    fn who_fills_the_uplinks_queue_is_named_with_his_rate() {
        let (mut vm, bulk) = (vm(waits(&[(20, 400)])), Sender::Vm(Name::new("bulk"), 77));
        let sent = |sender: &Sender, bytes| Sent { sender: sender.clone(), bytes };
        let senders = vec![sent(&bulk, 900), sent(&Sender::Host, 100)];
        let queue_blame = QueueBlame { bytes_ahead: 1000, senders, ..QueueBlame::default() };
        let queueing_delay = waits(&[(5_000, 100)]);
        vm.network = Some(Network { queueing_delay, queue_blame, ..Network::default() });
        let uplink = |name: &str, bytes| Uplink {
            name: Name::new(name),
            transmitted_bytes: bytes,
            senders: vec![sent(&bulk, bytes)],
        };
        let uplinks = vec![uplink("eth0", 1_000_000), uplink("eth1", 250_000)];
        let snapshot = Snapshot { uplinks, ..interval(vm) };
        let found = Diagnosis::default().update(&snapshot);
        assert_eq!((found.len(), found[0].symptom), (1, Symptom::QueueingDelay));
        let first = &found[0].causes[0];
        assert_eq!((&first.culprit, first.ratio), (&Culprit::Sender(bulk.clone()), 0.9));
        // A megabyte in a second, at the uplink where it is most.
        assert_eq!(first.bits_per_second, Some(8e6));
        let json = serde_json::to_value(first).unwrap();
        assert_eq!(json["sender"], serde_json::json!({"vm": ["bulk", 77]}));
        // Without a sample the causes stay for a while, and whoever is gone is none.
        let mut short = snapshot.clone();
        let network = short.vms[0].network.as_mut().unwrap();
        network.queue_blame = QueueBlame::default();
        let mut diagnosis = Diagnosis::default();
        diagnosis.update(&snapshot);
        for kept in [true, true, true, false] {
            let causes = &diagnosis.update(&short)[0].causes;
            let named = causes.iter().any(|cause| cause.culprit == Culprit::Sender(Sender::Host));
            assert_eq!(named, kept);
            assert!(causes.iter().all(|cause| cause.culprit != Culprit::Sender(bulk.clone())));
        }
    }

    #[test]
    fn who_fills_the_tap_is_named_with_what_he_sends_to_the_vm() {
        let (mut vm, flood) = (vm(waits(&[(20, 400)])), Sender::Vm(Name::new("flood"), 77));
        let sent = |bytes| vec![Sent { sender: flood.clone(), bytes }];
        vm.network = Some(Network {
            receive_queueing_delay: waits(&[(90_000, 100)]),
            receive_queue_blame: QueueBlame {
                bytes_ahead: 100,
                senders: sent(100),
                ..QueueBlame::default()
            },
            received_bytes: 125_000,
            received_senders: sent(125_000),
            ..Network::default()
        });
        vm.pid = 77;
        let mut snapshot = interval(vm);
        let mut diagnosis = Diagnosis::default();
        for followed in [true, false] {
            let found = diagnosis.update(&snapshot);
            assert_eq!((found.len(), found[0].symptom), (1, Symptom::ReceiveQueueingDelay));
            // A megabit in a second to this VM, whatever it sends elsewhere; also where no packet was followed.
            let cause = &found[0].causes[0];
            assert_eq!((cause.ratio, cause.bits_per_second), (1.0, Some(1e6)), "{followed}");
            let network = snapshot.vms[0].network.as_mut().unwrap();
            network.receive_queue_blame = QueueBlame::default();
        }
    }

    #[test]
    fn who_computes_and_gets_half_is_starved() {
        let mut vm = vm(Histogram::default());
        vm.threads[0].run_time_ns = 500_000_000;
        vm.threads[0].ready_after_preemption_ns = 500_000_000;
        let found = Diagnosis::default().update(&interval(vm.clone()));
        assert_eq!((found.len(), found[0].symptom, found[0].value), (1, Symptom::ReadyTime, 0.5));
        vm.ended = true;
        let mut diagnosis = Diagnosis::default();
        diagnosis.update(&interval(vm.clone()));
        vm.threads.clear();
        assert_eq!(diagnosis.update(&interval(vm)), []);
    }

    /// A wait that has ended in an interval in which the vCPU ran nearly all the time was before it.
    #[test]
    fn a_wait_of_the_intervals_before_starves_nobody_in_this_one() {
        let mut vm = vm(waits(&[(4_500_000, 1)]));
        vm.threads[0].run_time_ns = 950_000_000;
        vm.threads[0].ready_after_wakeup_ns = 50_000_000;
        assert_eq!(vm.ready_ratio(), Some(0.05));
        assert_eq!(Diagnosis::default().update(&interval(vm)), []);
    }

    #[test]
    fn a_machine_without_all_its_vcpus_is_in_the_dark() {
        let mut vm = vm(Histogram::default());
        assert!(!vm.is_in_the_dark());
        vm.unseen_threads.workers = 900;
        assert!(!vm.is_in_the_dark());
        vm.unseen_threads.vcpus = 1;
        assert!(vm.is_in_the_dark());
        vm.unseen_threads.vcpus = 0;
        vm.threads[0].role = Role::Worker;
        assert!(vm.is_in_the_dark(), "nobody knows which threads are its vCPUs");
        vm.kind = Kind::Declared;
        assert!(!vm.is_in_the_dark());
    }
}
