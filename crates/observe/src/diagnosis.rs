//! Which machine hurts, in which of the three queues, because of whom, and since when.

use std::collections::HashMap;

use lowtail_engine::Duration;
use serde::Serialize;

use super::{Histogram, Runner, Snapshot, VmSnapshot};
use lowtail_discover::Role;
use lowtail_kernel::Name;

/// Where a machine's requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// For a CPU: the run queue of its vCPUs.
    Cpu,
    /// In the host: its back end's threads, and the queue of the uplink.
    Host,
    /// Beyond the uplink: switches, and whoever answers.
    Beyond,
}

/// From when on a wait is one that hurts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A vCPU, from being woken to running.
    pub cpu: Duration,
    /// A back end's thread from being woken to running, and a packet in the uplink's queue.
    pub host: Duration,
    /// The round trip beyond the uplink.
    pub beyond: Duration,
}

impl Default for Thresholds {
    /// A millisecond in the host, which is where a request that takes tenths of one is no longer served
    /// as if its machine were alone; ten beyond it, since a network's distance is no queue.
    fn default() -> Self {
        let ms = Duration::from_ms;
        Thresholds { cpu: ms(1), host: ms(1), beyond: ms(10) }
    }
}

/// One in so many waits has to be too long, and [`LATE_MIN`] at least: a single one is no trap.
const LATE_ONE_IN: u64 = 100;
/// So many too long waits in an interval at least.
const LATE_MIN: u64 = 3;
/// A machine that computes is starved if its ready time is more than this share of its run and ready time.
const STARVED_SHARE: f64 = 0.25;
/// So long does a finding last that is not confirmed: intervals differ by chance.
const CLEAN_INTERVALS: u32 = 3;
/// Causes of one finding that are told.
const CAUSES_MAX: usize = 5;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symptom {
    /// Its vCPUs run late after being woken.
    Late,
    /// Its vCPUs have work, and do not get the time.
    Starved,
    /// Its own quota stops it.
    Throttled,
    /// Threads of its back end run late.
    BackEndLate,
    /// Its packets wait in the uplink's queue.
    Queued,
    /// Its packets are dropped in the host.
    Dropped,
    /// Answers take long beyond the uplink.
    #[serde(rename = "far")]
    RemoteLatency,
}

impl Symptom {
    /// Its name in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Symptom::Late => "late",
            Symptom::Starved => "starved",
            Symptom::Throttled => "throttled",
            Symptom::BackEndLate => "back-end-late",
            Symptom::Queued => "queued",
            Symptom::Dropped => "dropped",
            Symptom::RemoteLatency => "far",
        }
    }

    /// What its amount counts.
    pub fn unit(self) -> Unit {
        match self {
            Symptom::Late | Symptom::BackEndLate | Symptom::Queued | Symptom::RemoteLatency => {
                Unit::P99Us
            }
            Symptom::Starved | Symptom::Throttled => Unit::Percent,
            Symptom::Dropped => Unit::Packets,
        }
    }

    /// In which of the three queues.
    pub fn queue(self) -> Queue {
        match self {
            Symptom::Late | Symptom::Starved | Symptom::Throttled => Queue::Cpu,
            Symptom::BackEndLate | Symptom::Queued | Symptom::Dropped => Queue::Host,
            Symptom::RemoteLatency => Queue::Beyond,
        }
    }
}

/// What an amount counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Microseconds that 99 in 100 waits do not exceed.
    P99Us,
    /// Percent of time that was wanted, or of periods.
    Percent,
    /// Packets in the interval.
    Packets,
}

/// For whom, and how much of the waiting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Who ran.
    #[serde(rename = "who")]
    pub runner: Runner,
    /// Their share of all that was waited, 0 to 1.
    pub share: f64,
}

/// One trouble of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The machine.
    pub vm: Name,
    /// Its process; with `started_ticks` unique.
    pub pid: u32,
    /// When that process started, in clock ticks since boot.
    pub started_ticks: u64,
    /// In which queue.
    pub queue: Queue,
    /// What is wrong.
    #[serde(rename = "trouble")]
    pub symptom: Symptom,
    /// How bad it is: p99 of the waits in microseconds; for `starved` and `throttled` the share of
    /// time in percent, for `dropped` packets in the interval.
    pub amount: f64,
    /// From which amount on it is told: the user's limit, or lowtail's own.
    pub limit: f64,
    /// What `amount` and `limit` count.
    pub unit: Unit,
    /// Because of whom, most first. Empty where nobody else has to do with it.
    pub causes: Vec<Cause>,
    /// For how long, in milliseconds, by a clock that nobody sets.
    pub for_ms: f64,
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
    for_ms: f64,
    clean: u32,
    last: Finding,
}

impl Diagnosis {
    /// With thresholds of the user's.
    pub fn new(thresholds: Thresholds) -> Self {
        Diagnosis { thresholds, open: HashMap::new() }
    }

    /// What hurts now, the worst queue's first within a machine, machines by name. What was not seen again in this interval
    /// is kept for two more, with its last figures.
    pub fn update(&mut self, snapshot: &Snapshot) -> Vec<Finding> {
        let mut findings = Vec::new();
        for vm in &snapshot.vms {
            for found in look(vm, snapshot.interval_ms, &self.thresholds) {
                let key = (vm.pid, vm.started_ticks, found.symptom);
                let before = self.open.remove(&key).map_or(0.0, |open| open.for_ms);
                let for_ms = before + snapshot.interval_ms;
                let last = Finding { for_ms, ..found };
                findings.push((key, Open { for_ms, clean: 0, last }));
            }
        }
        // A machine that is gone has no troubles left.
        let here = |key: &(u32, u64, Symptom)| {
            snapshot.vms.iter().any(|vm| !vm.ended && (vm.pid, vm.started_ticks) == (key.0, key.1))
        };
        for (key, mut open) in self.open.drain() {
            open.clean += 1;
            open.for_ms += snapshot.interval_ms;
            if open.clean < CLEAN_INTERVALS && here(&key) {
                findings.push((key, open));
            }
        }
        let mut told: Vec<Finding> = findings.iter().map(|(_, open)| open.last.clone()).collect();
        told.sort_by(|a, b| {
            let order = (&a.vm, a.pid, a.queue).cmp(&(&b.vm, b.pid, b.queue));
            order.then(b.amount.total_cmp(&a.amount))
        });
        self.open.extend(findings);
        told
    }
}

/// The troubles of one machine in one interval.
fn look(vm: &VmSnapshot, interval_ms: f64, thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = Vec::new();
    let us = |limit: Duration| limit.as_ns() as f64 / 1e3;
    let mut tell = |symptom: Symptom, amount: f64, causes: Vec<Cause>| {
        let (name, queue) = (vm.name.clone(), symptom.queue());
        let limit = match symptom {
            Symptom::Late => us(thresholds.cpu),
            Symptom::BackEndLate | Symptom::Queued => us(thresholds.host),
            Symptom::RemoteLatency => us(thresholds.beyond),
            Symptom::Starved => 100.0 * STARVED_SHARE,
            Symptom::Throttled => 0.0,
            Symptom::Dropped => LATE_MIN as f64,
        };
        let (pid, started_ticks) = (vm.pid, vm.started_ticks);
        let (unit, for_ms) = (symptom.unit(), 0.0);
        found.push(Finding {
            vm: name,
            pid,
            started_ticks,
            queue,
            symptom,
            amount,
            limit,
            unit,
            causes,
            for_ms,
        });
    };
    let (mut late, mut back_end) = (Histogram::default(), Histogram::default());
    let mut wanted_ns = 0;
    for thread in &vm.threads {
        match thread.role {
            Role::Vcpu(_) => {
                late.merge(&thread.wake_to_run);
                wanted_ns += thread.cpu_ns + thread.waited_ns();
            }
            Role::Vhost(_) | Role::IoThread(_) | Role::Emulator => {
                back_end.merge(&thread.wake_to_run);
            }
            Role::Worker => {}
        }
    }
    let vcpu = |role: &Role| matches!(role, Role::Vcpu(_));
    if hurts(&late, thresholds.cpu) {
        tell(Symptom::Late, p99_us(&late), causes(vm, vcpu));
    }
    // Who hardly wants to run is not starved; that it runs late has been told.
    let wants = wanted_ns as f64 / 1e6 > interval_ms / 10.0;
    let share = vm.waits_share().unwrap_or(0.0);
    if share > STARVED_SHARE && wants {
        tell(Symptom::Starved, 100.0 * share, causes(vm, vcpu));
    }
    let periods: u64 = vm.throttled.iter().map(|group| group.periods).sum();
    let throttled: u64 = vm.throttled.iter().map(|group| group.throttled_periods).sum();
    if throttled >= LATE_MIN.min(periods) && throttled > 0 {
        let cause = Cause { runner: Runner::Quota, share: 1.0 };
        tell(Symptom::Throttled, 100.0 * throttled as f64 / periods.max(1) as f64, vec![cause]);
    }
    if hurts(&back_end, thresholds.host) {
        let serves =
            |role: &Role| matches!(role, Role::Vhost(_) | Role::IoThread(_) | Role::Emulator);
        tell(Symptom::BackEndLate, p99_us(&back_end), causes(vm, serves));
    }
    if let Some(network) = &vm.network {
        if hurts(&network.queue, thresholds.host) {
            tell(Symptom::Queued, p99_us(&network.queue), Vec::new());
        }
        let drops: u64 = network.drops.iter().map(|drop| drop.packets).sum();
        if drops >= LATE_MIN && drops * LATE_ONE_IN >= network.packets {
            tell(Symptom::Dropped, drops as f64, Vec::new());
        }
        if hurts(&network.beyond, thresholds.beyond) {
            tell(Symptom::RemoteLatency, p99_us(&network.beyond), Vec::new());
        }
    }
    found
}

/// Whether enough of these waits are too long.
fn hurts(waits: &Histogram, threshold: Duration) -> bool {
    let late = waits.at_least(threshold.as_ns());
    late >= LATE_MIN && late * LATE_ONE_IN >= waits.count()
}

fn p99_us(waits: &Histogram) -> f64 {
    waits.percentile_us(0.99).unwrap_or(0.0)
}

/// Because of whom the threads of these roles waited.
fn causes(vm: &VmSnapshot, role: impl Fn(&Role) -> bool) -> Vec<Cause> {
    let mut all: Vec<(&Runner, u64)> = Vec::new();
    for blame in vm.threads.iter().filter(|t| role(&t.role)).flat_map(|t| &t.blame) {
        match all.iter_mut().find(|(runner, _)| *runner == &blame.runner) {
            Some((_, ns)) => *ns += blame.waited_ns,
            None => all.push((&blame.runner, blame.waited_ns)),
        }
    }
    let total: u64 = all.iter().map(|(_, ns)| ns).sum();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let cause = |(runner, ns): &(&Runner, u64)| Cause {
        runner: (*runner).clone(),
        share: *ns as f64 / total.max(1) as f64,
    };
    all.iter().take(CAUSES_MAX).map(cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blame, Network, ThreadSnapshot, Throttled, Unseen};
    use lowtail_discover::{Kind, Origin};

    fn waits(us: &[(u64, u64)]) -> Histogram {
        let mut all = Histogram::default();
        for &(wait_us, count) in us {
            (0..count).for_each(|_| all.record(wait_us * 1_000));
        }
        all
    }

    fn vm(wake_to_run: Histogram) -> VmSnapshot {
        let other = Runner::Vm(Name::new("batch"), 77);
        let thread = ThreadSnapshot {
            tid: 11,
            role: Role::Vcpu(0),
            comm: Name::new("CPU 0/KVM"),
            cpu_ns: 10_000_000,
            woken_waited_ns: 0,
            preempted_waited_ns: 0,
            wake_to_run,
            preempted_to_run: Histogram::default(),
            waiting_ns: 0,
            blame: vec![
                Blame { runner: Runner::Kernel(Name::new("kworker")), waited_ns: 1 },
                Blame { runner: other, waited_ns: 3 },
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
        assert_eq!((found[0].queue, found[0].symptom), (Queue::Cpu, Symptom::Late));
        assert!((found[0].amount / 4_000.0 - 1.0).abs() < 0.04, "{}", found[0].amount);
        assert_eq!(found[0].causes[0].runner, Runner::Vm(Name::new("batch"), 77));
        assert_eq!(found[0].causes[0].share, 0.75);
        assert_eq!(diagnosis.update(&interval(slow))[0].for_ms, 2000.0);
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
        assert_eq!((found.len(), found[0].symptom), (1, Symptom::Throttled));
        assert_eq!((found[0].amount, &found[0].causes[0].runner), (50.0, &Runner::Quota));
        vm.throttled.clear();
        let queue = waits(&[(5_000, 100)]);
        vm.network = Some(Network { queue, packets: 100, ..Network::default() });
        found = Diagnosis::default().update(&interval(vm.clone()));
        assert_eq!((found.len(), found[0].symptom), (1, Symptom::Queued));
        let beyond = waits(&[(40_000, 100)]);
        vm.network = Some(Network { beyond, packets: 100, ..Network::default() });
        found = Diagnosis::default().update(&interval(vm));
        assert_eq!((found.len(), found[0].queue), (1, Queue::Beyond));
    }

    #[test]
    fn who_computes_and_gets_half_is_starved() {
        let mut vm = vm(Histogram::default());
        vm.threads[0].cpu_ns = 500_000_000;
        vm.threads[0].preempted_waited_ns = 500_000_000;
        let found = Diagnosis::default().update(&interval(vm.clone()));
        assert_eq!((found.len(), found[0].symptom, found[0].amount), (1, Symptom::Starved, 50.0));
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
        vm.threads[0].cpu_ns = 950_000_000;
        vm.threads[0].woken_waited_ns = 50_000_000;
        assert_eq!(vm.waits_share(), Some(0.05));
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
