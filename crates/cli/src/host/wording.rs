//! What is observed, in words and cells: for the screen, tables and metrics.

use lowtail_discover::Role;
use lowtail_kernel::Histogram;
use lowtail_observe::{Finding, Runner, Snapshot, Symptom, ThreadSnapshot, VmSnapshot};

/// What is told of a machine. Times are in microseconds.
pub(crate) const COLUMNS: [&str; 13] = [
    "machine",
    "vCPUs",
    "CPU %",
    "wake p50",
    "p99",
    "max us",
    "waits %",
    "throttled",
    "back end p99",
    "queue p99",
    "drops",
    "beyond p50",
    "p99 us",
];

/// The cells of [`COLUMNS`].
pub(crate) fn cells(vm: &VmSnapshot, interval_ms: f64) -> Vec<String> {
    let wakes = wakes(vm);
    let vcpus = match (vm.vcpus().count(), vm.unseen_threads.vcpus) {
        (seen, 0) => seen.to_string(),
        (seen, unseen) => format!("{seen} of {}", seen as u64 + unseen),
    };
    let ran_ns: u64 = vm.threads.iter().map(|thread| thread.cpu_ns).sum();
    let throttled: u64 = vm.throttled.iter().map(|group| group.throttled_periods).sum();
    let name = format!("{}{}", vm.name, if vm.ended { " (ended)" } else { "" });
    let mut cells = vec![
        name,
        vcpus,
        format!("{:.1}", ran_ns as f64 / interval_ms.max(1.0) / 1e4),
        us(wakes.percentile_us(0.5)),
        us(wakes.percentile_us(0.99)),
        us((wakes.count() > 0).then_some(wakes.max_ns() as f64 / 1e3)),
        vm.waits_share().map_or_else(|| "–".to_string(), |share| format!("{:.1}", 100.0 * share)),
        if vm.throttled.is_empty() { "–".to_string() } else { throttled.to_string() },
        us(back_end(vm).percentile_us(0.99)),
    ];
    match &vm.network {
        None => cells.extend(["–"; 4].map(String::from)),
        Some(network) => cells.extend([
            us(network.queue.percentile_us(0.99)),
            network.drops.iter().map(|drop| drop.packets).sum::<u64>().to_string(),
            us(network.beyond.percentile_us(0.5)),
            us(network.beyond.percentile_us(0.99)),
        ]),
    }
    cells
}

/// A finding in words.
pub(crate) fn sentence(finding: &Finding) -> String {
    let amount = finding.amount;
    let what = match finding.symptom {
        Symptom::Late => format!("waits for a CPU when woken, p99 {} us", us(Some(amount))),
        Symptom::Starved => format!("waits for a CPU {amount:.0} % of the time that it wants"),
        Symptom::Throttled => format!("is stopped by its own quota in {amount:.0} % of periods"),
        Symptom::BackEndLate => format!("waits for its back end, p99 {} us", us(Some(amount))),
        Symptom::Queued => format!("waits in the uplink's queue, p99 {} us", us(Some(amount))),
        Symptom::Dropped => format!("loses {amount:.0} packets in the host"),
        Symptom::RemoteLatency => format!("waits beyond the uplink, p99 {} us", us(Some(amount))),
    };
    let told = finding.causes.iter().filter(|cause| cause.share >= 0.05).take(3);
    let causes: Vec<String> =
        told.map(|cause| format!("{} {:.0} %", who(&cause.runner), 100.0 * cause.share)).collect();
    let because = match (causes.is_empty(), finding.symptom) {
        (true, _) | (_, Symptom::Throttled) => String::new(),
        _ => format!(", because of {}", causes.join(", ")),
    };
    format!("{} {what}{because}, for {:.0} s", finding.vm, finding.for_ms / 1e3)
}

/// Machines of which it is not known how they are, in words.
pub(crate) fn dark(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let words = |vm: &VmSnapshot| {
        let (seen, unseen) = (vm.vcpus().count(), vm.unseen_threads.vcpus);
        match unseen {
            0 => format!("{}: not known; none of its threads is known to be a vCPU", vm.name),
            _ => format!(
                "{}: not known; {unseen} of {} vCPUs are not seen, there is no room for them \
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
            "{}: not seen: {} vCPUs, {} back-end threads, {} workers, {} at their start",
            vm.name, of.vcpus, of.back_end, of.workers, of.begun
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

/// Wake-ups of all vCPUs.
pub(crate) fn wakes(vm: &VmSnapshot) -> Histogram {
    let mut all = Histogram::default();
    vm.threads.iter().filter(|thread| is_vcpu(thread)).for_each(|t| all.merge(&t.wake_to_run));
    all
}

/// Wake-ups of the threads that serve its devices.
pub(crate) fn back_end(vm: &VmSnapshot) -> Histogram {
    let mut all = Histogram::default();
    let serves = |role| matches!(role, Role::Vhost(_) | Role::IoThread(_) | Role::Emulator);
    vm.threads.iter().filter(|t| serves(t.role)).for_each(|t| all.merge(&t.wake_to_run));
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
