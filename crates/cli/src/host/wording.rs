//! What is observed, in words and cells: for the screen, tables and metrics.

use lowtail_discover::Role;
use lowtail_kernel::Histogram;
use lowtail_observe::{
    Cause, Culprit, Finding, Runner, Sender, Snapshot, Symptom, ThreadSnapshot, VmSnapshot,
};

/// What is told of a VM. Times are in microseconds.
pub(crate) const COLUMNS: [&str; 15] = [
    "VM",
    "vCPUs",
    "CPU %",
    "wake-up p50",
    "p99",
    "max us",
    "ready %",
    "throttled",
    "back-end p99",
    "Mbit/s",
    "queueing p99",
    "receive p99",
    "drops",
    "round trip p50",
    "p99 us",
];

/// The cells of [`COLUMNS`].
pub(crate) fn cells(vm: &VmSnapshot, interval_ms: f64) -> Vec<String> {
    let wakes = wakes(vm);
    let vcpus = match (vm.vcpus().count(), vm.unseen_threads.vcpus) {
        (seen, 0) => seen.to_string(),
        (seen, unseen) => format!("{seen} of {}", seen as u64 + unseen),
    };
    let ran_ns: u64 = vm.threads.iter().map(|thread| thread.run_time_ns).sum();
    let throttled: u64 = vm.throttled.iter().map(|group| group.throttled_periods).sum();
    let name = format!("{}{}", vm.name, if vm.ended { " (ended)" } else { "" });
    let mut cells = vec![
        name,
        vcpus,
        format!("{:.1}", ran_ns as f64 / interval_ms.max(1.0) / 1e4),
        us(wakes.percentile_us(0.5)),
        us(wakes.percentile_us(0.99)),
        us((wakes.count() > 0).then_some(wakes.max_ns() as f64 / 1e3)),
        vm.ready_ratio().map_or_else(|| "–".to_string(), |share| format!("{:.1}", 100.0 * share)),
        if vm.throttled.is_empty() { "–".to_string() } else { throttled.to_string() },
        us(back_end(vm).percentile_us(0.99)),
    ];
    match &vm.network {
        None => cells.extend(["–"; 6].map(String::from)),
        Some(network) => cells.extend([
            mbit(network.bits_per_second(interval_ms)),
            us(network.queueing_delay.percentile_us(0.99)),
            us(network.receive_queueing_delay.percentile_us(0.99)),
            network.drops.iter().map(|drop| drop.packets).sum::<u64>().to_string(),
            us(network.round_trip.percentile_us(0.5)),
            us(network.round_trip.percentile_us(0.99)),
        ]),
    }
    cells
}

/// A finding in words: whose, the symptom with its size and limit, the cause, what to do next.
pub(crate) fn sentence(finding: &Finding) -> String {
    let Finding { vm, symptom, value, limit, .. } = finding;
    let p99 = |what: &str| format!("{what} p99 {} (limit {})", span(*value), span(*limit));
    let percent = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
    let what = match symptom {
        Symptom::WakeupLatency => p99("wake-up latency"),
        Symptom::ReadyTime => {
            let (value, limit) = (percent(*value), percent(*limit));
            format!("ready time {value} of run and ready time (limit {limit})")
        }
        Symptom::Throttling => format!("throttled in {} of periods", percent(*value)),
        Symptom::BackendLatency => p99("back-end latency"),
        Symptom::QueueingDelay => p99("queueing delay at the uplink"),
        Symptom::ReceiveQueueingDelay => p99("queueing delay of what it receives, at its tap"),
        Symptom::Drops => format!("{value:.0} packets dropped in the host"),
        Symptom::RoundTrip => p99("round trip beyond the uplink"),
    };
    let mut told = finding.causes.iter().filter(|cause| cause.ratio >= 0.05).take(3);
    let cause = match (told.next(), symptom) {
        (_, Symptom::Throttling) => "; cause: its own CPU quota".to_string(),
        (None, _) => String::new(),
        (Some(first), _) => {
            let own = |cause: &Cause| matches!(&cause.culprit, Culprit::Sender(Sender::Vm(_, pid)) if *pid == finding.pid);
            let others = told.map(|cause| format!(", {} {}", culprit(cause), percent(cause.ratio)));
            let others = others.collect::<String>();
            let (who, ratio) = (culprit(first), percent(first.ratio));
            match &first.culprit {
                // A quota does not run.
                Culprit::Runner(Runner::Quota) => {
                    format!("; cause: {who} stopped it {ratio} of the wait{others}")
                }
                Culprit::Runner(_) => {
                    let why = first.reason.map(|reason| format!(" ({})", reason.words()));
                    let why = why.unwrap_or_default();
                    format!("; cause: {who} ran on its CPU {ratio} of the wait{why}{others}")
                }
                Culprit::Sender(_) if own(first) => {
                    format!("; cause: its own traffic, {ratio} of the bytes ahead{others}")
                }
                Culprit::Sender(_) => {
                    format!("; cause: {who} sent {ratio} of the bytes ahead{others}")
                }
            }
        }
    };
    format!("{vm}: {what}{cause}; for {:.0} s", finding.duration_ms / 1e3)
}

/// Who it is; a sender with its rate.
fn culprit(cause: &Cause) -> String {
    match (&cause.culprit, cause.bits_per_second) {
        (Culprit::Runner(runner), _) => who(runner),
        (Culprit::Sender(who), Some(rate)) => format!("{} ({} Mbit/s)", sender(who), mbit(rate)),
        (Culprit::Sender(who), None) => sender(who),
    }
}

/// What an operator does next about `findings`, one line for each kind of remedy.
pub(crate) fn next_steps(findings: &[Finding]) -> Vec<&'static str> {
    // On a host of Xen's, where schedulers say why, policies are not for it.
    let of_xen = |finding: &Finding| finding.causes.iter().any(|cause| cause.reason.is_some());
    let step = |finding: &Finding| match finding.symptom {
        Symptom::WakeupLatency | Symptom::ReadyTime if of_xen(finding) => {
            "next: `lowtail host doctor` tells of the scheduler; `lowtail host record`, then `lowtail predict FILE --ratelimit 0us`, what another rate limit changes"
        }
        Symptom::WakeupLatency | Symptom::ReadyTime | Symptom::BackendLatency => {
            "next: set weights or caps in a policy, and ask `lowtail host plan POLICY` what it changes"
        }
        Symptom::Throttling => "next: raise the quota (cpu.max), or give it a burst",
        Symptom::QueueingDelay => {
            "next: name the uplink in a policy, and ask `lowtail host plan POLICY` what it changes"
        }
        Symptom::ReceiveQueueingDelay => {
            "next: look at the back-end latency and CPU time of who receives late: its back end takes packets from the tap too slowly"
        }
        Symptom::Drops => "next: `lowtail host observe --once --json` gives the kernel's reasons",
        Symptom::RoundTrip => {
            "next: look at the network and at who answers; this host is not the cause"
        }
    };
    let mut steps: Vec<&str> = findings.iter().map(step).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Seconds in a unit that people read, with three digits that count.
fn span(seconds: f64) -> String {
    let span_us = 1e6 * seconds;
    if span_us < 999.5 {
        format!("{} us", us(Some(span_us)))
    } else {
        format!("{} ms", us(Some(span_us / 1e3)))
    }
}

/// VMs of which it is not known how they are, in words.
pub(crate) fn dark(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let words = |vm: &VmSnapshot| {
        let (seen, unseen) = (vm.vcpus().count(), vm.unseen_threads.vcpus);
        match unseen {
            0 => format!(
                "{}: unknown; lowtail does not know which of its threads are vCPUs",
                vm.name
            ),
            _ => format!(
                "{}: unknown; {unseen} of {} vCPUs are not tracked for lack of room \
                 (--threads)",
                vm.name,
                seen as u64 + unseen
            ),
        }
    };
    snapshot.vms.iter().filter(|vm| vm.is_in_the_dark()).map(words)
}

/// Threads that are not seen, other than vCPUs, in words: whose, and how many.
pub(crate) fn unseen(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let words = |vm: &VmSnapshot| {
        let of = vm.unseen_threads;
        format!(
            "{}: not tracked: {} vCPUs, {} back-end threads, {} workers, {} at their start",
            vm.name, of.vcpus, of.backend, of.workers, of.started
        )
    };
    snapshot.vms.iter().filter(|vm| vm.unseen_threads.any()).map(words)
}

/// Who ran, in words.
pub(crate) fn who(who: &Runner) -> String {
    match who {
        Runner::Vm(name, _) => name.to_string(),
        Runner::Process(name, pid) => format!("{name} ({pid})"),
        Runner::Kernel(name) => format!("kernel: {name}"),
        Runner::Idle => "nobody (idle)".to_string(),
        Runner::Quota => "its quota".to_string(),
        Runner::Others => "others".to_string(),
    }
}

/// Who sends, in words.
pub(crate) fn sender(sender: &Sender) -> String {
    match sender {
        Sender::Vm(name, _) => name.to_string(),
        // The last part says which it is: a service, a container. Whoever makes one may call it as a VM is called.
        Sender::Group(name) => {
            let name = name.to_string();
            format!("cgroup {}", name.rsplit('/').next().unwrap_or_default())
        }
        Sender::Interface(name) => format!("from {name}"),
        Sender::Host => "host".to_string(),
        Sender::Others => "others".to_string(),
    }
}

/// Megabits per second, with three digits that count.
pub(crate) fn mbit(bits_per_second: f64) -> String {
    us(Some(bits_per_second / 1e6))
}

/// Wake-ups of all vCPUs.
pub(crate) fn wakes(vm: &VmSnapshot) -> Histogram {
    let mut all = Histogram::default();
    vm.threads.iter().filter(|thread| is_vcpu(thread)).for_each(|t| all.merge(&t.wakeup_latency));
    all
}

/// Wake-ups of the threads that serve its devices.
pub(crate) fn back_end(vm: &VmSnapshot) -> Histogram {
    let mut all = Histogram::default();
    let serves = |role| matches!(role, Role::Vhost(_) | Role::IoThread(_) | Role::Emulator);
    vm.threads.iter().filter(|t| serves(t.role)).for_each(|t| all.merge(&t.wakeup_latency));
    all
}

pub(crate) fn is_vcpu(thread: &ThreadSnapshot) -> bool {
    matches!(thread.role, Role::Vcpu(_))
}

/// What a thread does, in a word.
pub(crate) fn role(role: Role) -> String {
    match role {
        Role::Vcpu(n) => format!("vcpu{n}"),
        Role::Emulator => "emulator".to_string(),
        Role::IoThread(n) => format!("iothread{n}"),
        Role::Vhost(n) => format!("vhost{n}"),
        Role::Worker => "worker".to_string(),
    }
}

/// Microseconds with three digits that count.
pub(crate) fn us(us: Option<f64>) -> String {
    match us {
        None => "–".to_string(),
        Some(us) if us < 9.995 => format!("{us:.2}"),
        Some(us) if us < 99.95 => format!("{us:.1}"),
        Some(us) => format!("{us:.0}"),
    }
}
