//! Totals of VMs since the start, and how much of them there may be.

use std::collections::{BTreeMap, VecDeque};

use lowtail_discover::Role;
use lowtail_observe::{Finding, Lost, Sent, Snapshot, Symptom, ThreadSnapshot, VmSnapshot};

use super::blame::{By, Ledger};
use super::delays::Delays;
use super::label::shown;
use crate::host::wording;

/// VMs that are told. Whoever starts more has them counted, and no more.
pub(super) const VMS_MAX: usize = 512;
/// Roles of threads that are told for one VM; the rest is told together.
pub(super) const ROLES_MAX: usize = 128;
/// Roles that each VM has for certain, whatever others have.
pub(super) const ROLES_SURE: usize = 4;
/// Roles of all VMs together, beyond those.
pub(super) const ROLES_SHARED: usize = 2048;
/// Reasons of drops that are told for one VM.
const REASONS_MAX: usize = 64;
/// VMs that are gone and may come back, such as one that was not recognised for a moment: their
/// counters then go on.
const GONE_MAX: usize = 512;
/// Uplinks that are told.
const UPLINKS_MAX: usize = 64;
/// What threads and drops are called that are told together.
const OTHERS: &str = "others";

/// A VM's process, and when that started in clock ticks since boot: no two have both.
pub(super) type Key = (u32, u64);

/// All VMs that are told.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Whether threads have series of their own, too.
    per_thread: bool,
    vms: BTreeMap<Key, Account>,
    gone: VecDeque<(Key, Account)>,
    uplinks: BTreeMap<String, Ledger>,
    lost: Lost,
    left_out: LeftOut,
}

#[derive(Debug, Default)]
struct Account {
    vm: Vm,
    blame: Ledger,
    queue_blame: Ledger,
    receive_queue_blame: Ledger,
    received: Ledger,
}

/// What is told, as it was at one time.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) vms: Vec<(Key, Vm)>,
    /// Bytes that uplinks have sent, by whose they were.
    pub(super) uplinks: Vec<(String, Vec<(By, u64)>)>,
    /// Since the start.
    pub(super) lost: Lost,
    pub(super) left_out: LeftOut,
}

/// What the last interval had beyond what is told by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// VMs that are not told at all.
    pub(super) vms: u64,
    /// Threads that are told as `others`.
    pub(super) threads: u64,
    /// Names of those who were waited for that are told as `others`, VM by VM.
    pub(super) names: u64,
}

/// Totals of one VM.
#[derive(Clone, Debug, Default)]
pub(super) struct Vm {
    /// As a terminal can show it: people look at metrics in one.
    pub(super) name: String,
    pub(super) kind: String,
    /// All its vCPUs.
    pub(super) vcpus: Threads,
    /// All threads that serve its devices.
    pub(super) backend: Threads,
    /// All others.
    pub(super) workers: Threads,
    /// By what the thread does, such as `vcpu0`; empty unless threads have series of their own.
    pub(super) threads: BTreeMap<String, Threads>,
    /// Nanoseconds by whom.
    pub(super) blame: Vec<(By, u64)>,
    /// Bytes that left before its packets, by whose they were.
    pub(super) queue_blame: Vec<(By, u64)>,
    /// The same of packets to it, in its tap.
    pub(super) receive_queue_blame: Vec<(By, u64)>,
    /// Bytes that it got, by whose they were.
    pub(super) received: Vec<(By, u64)>,
    pub(super) throttled_periods: u64,
    pub(super) throttled_ns: u64,
    pub(super) network: Option<Traffic>,
    /// Only while they last, in the units of [`Finding::value`].
    pub(super) symptoms: Vec<(Symptom, f64)>,
}

/// Totals of threads that do the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads {
    pub(super) run_time_ns: u64,
    pub(super) ready_ns: u64,
    pub(super) wakeup_latency: Delays,
    pub(super) preemption_latency: Delays,
    any: bool,
}

impl Threads {
    /// The totals, if there ever was such a thread.
    pub(super) fn seen(&self) -> Option<&Self> {
        self.any.then_some(self)
    }

    fn add(&mut self, thread: &ThreadSnapshot) {
        self.any = true;
        self.run_time_ns = self.run_time_ns.saturating_add(thread.run_time_ns);
        self.ready_ns = self.ready_ns.saturating_add(thread.ready_ns());
        self.wakeup_latency.add(&thread.wakeup_latency);
        self.preemption_latency.add(&thread.preemption_latency);
    }
}

/// Totals of a VM's packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    pub(super) transmitted_bytes: u64,
    pub(super) queueing_delay: Delays,
    pub(super) receive_queueing_delay: Delays,
    pub(super) round_trip: Delays,
    /// Packets by reason.
    pub(super) drops: BTreeMap<String, u64>,
}

impl Totals {
    /// With series for each thread, too, or only for each VM.
    pub(super) fn new(per_thread: bool) -> Self {
        Totals { per_thread, ..Totals::default() }
    }

    /// Adds an interval. A VM that has ended is told once more, and then no longer.
    pub(super) fn add(&mut self, snapshot: &Snapshot, findings: &[Finding]) {
        let lost = snapshot.lost;
        self.lost.waits += lost.waits;
        self.lost.blame += lost.blame;
        self.lost.packets += lost.packets;
        self.lost.threads += lost.threads;
        self.left_out = LeftOut::default();
        let mut vms: BTreeMap<Key, &VmSnapshot> = BTreeMap::new();
        for vm in &snapshot.vms {
            vms.insert((vm.pid, vm.started_ticks), vm);
        }
        let left = self.vms.extract_if(.., |key, _| !vms.contains_key(key));
        self.gone.extend(left);
        while self.gone.len() > GONE_MAX {
            self.gone.pop_front();
        }
        // Those that are told stay; of new ones the oldest come first.
        let is_told = |key: &Key| self.vms.contains_key(key);
        let mut order: Vec<(bool, u64, Key)> =
            vms.keys().map(|key| (!is_told(key), key.1, *key)).collect();
        order.sort_unstable();
        let mut shared = self.vms.values().map(Account::shared).sum();
        for (_, _, key) in order {
            if !self.vms.contains_key(&key) {
                if self.vms.len() >= VMS_MAX {
                    self.left_out.vms += 1;
                    continue;
                }
                let back = self.gone.iter().position(|(gone, _)| *gone == key);
                let back = back.and_then(|at| self.gone.remove(at));
                let account = back.map_or_else(Account::default, |(_, account)| account);
                shared += account.shared();
                self.vms.insert(key, account);
            }
            let Some(account) = self.vms.get_mut(&key) else { continue };
            account.add(vms[&key], &mut self.left_out);
            if self.per_thread {
                account.add_threads(vms[&key], &mut shared, &mut self.left_out);
            }
            let own = findings.iter().filter(|found| (found.pid, found.started_ticks) == key);
            account.vm.symptoms = own.map(|found| (found.symptom, found.value)).collect();
        }
        for uplink in &snapshot.uplinks {
            let name = shown(&uplink.name);
            if self.uplinks.len() >= UPLINKS_MAX && !self.uplinks.contains_key(&name) {
                continue;
            }
            self.left_out.names += self.uplinks.entry(name).or_default().add(by(&uplink.senders));
        }
    }

    /// A copy of what is told.
    pub(super) fn told(&self) -> Told {
        let vm = |(key, account): (&Key, &Account)| {
            let vm = Vm {
                blame: account.blame.told(),
                queue_blame: account.queue_blame.told(),
                receive_queue_blame: account.receive_queue_blame.told(),
                received: account.received.told(),
                ..account.vm.clone()
            };
            (*key, vm)
        };
        let vms = self.vms.iter().map(vm).collect();
        let uplinks = self.uplinks.iter().map(|(name, ledger)| (name.clone(), ledger.told()));
        let uplinks = uplinks.collect();
        Told { vms, uplinks, lost: self.lost, left_out: self.left_out }
    }
}

impl Vm {
    /// Roles that are told by name. That of the others is not counted: each VM may have it.
    fn roles(&self) -> usize {
        self.threads.len() - usize::from(self.threads.contains_key(OTHERS))
    }
}

impl Account {
    /// Roles that it has beyond those that are sure.
    fn shared(&self) -> usize {
        self.vm.roles().saturating_sub(ROLES_SURE)
    }

    fn add(&mut self, vm: &VmSnapshot, left_out: &mut LeftOut) {
        self.vm.name = shown(&vm.name);
        self.vm.kind = json_word(&vm.kind);
        let mut blame: BTreeMap<By, u64> = BTreeMap::new();
        for thread in &vm.threads {
            let of = match thread.role {
                Role::Vcpu(_) => &mut self.vm.vcpus,
                Role::Emulator | Role::IoThread(_) | Role::Vhost(_) => &mut self.vm.backend,
                Role::Worker => &mut self.vm.workers,
            };
            of.add(thread);
            for part in &thread.blame {
                let ns = blame.entry(By::from(&part.runner)).or_default();
                *ns = ns.saturating_add(part.ready_ns);
            }
        }
        left_out.names += self.blame.add(blame);
        for group in &vm.throttled {
            self.vm.throttled_periods += group.throttled_periods;
            self.vm.throttled_ns += group.throttled_ns;
        }
        if let Some(network) = &vm.network {
            let of = self.vm.network.get_or_insert_default();
            left_out.names += self.queue_blame.add(by(&network.queue_blame.senders));
            of.transmitted_bytes += network.transmitted_bytes;
            of.queueing_delay.add(&network.queueing_delay);
            let blame = by(&network.receive_queue_blame.senders);
            left_out.names += self.receive_queue_blame.add(blame);
            left_out.names += self.received.add(by(&network.received_senders));
            of.receive_queueing_delay.add(&network.receive_queueing_delay);
            of.round_trip.add(&network.round_trip);
            for drop in &network.drops {
                let room = of.drops.len() < REASONS_MAX || of.drops.contains_key(&drop.reason);
                let reason = if room { drop.reason.as_str() } else { OTHERS };
                *of.drops.entry(reason.to_string()).or_default() += drop.packets;
            }
        }
    }

    fn add_threads(&mut self, vm: &VmSnapshot, shared: &mut usize, left_out: &mut LeftOut) {
        vm.threads.iter().for_each(|thread| self.add_thread(thread, shared, left_out));
    }

    fn add_thread(&mut self, thread: &ThreadSnapshot, shared: &mut usize, left_out: &mut LeftOut) {
        let have = self.vm.roles();
        let threads = &mut self.vm.threads;
        let mut role = wording::role(thread.role);
        if !threads.contains_key(&role) {
            if have >= ROLES_SURE && (have >= ROLES_MAX || *shared >= ROLES_SHARED) {
                role = OTHERS.to_string();
                left_out.threads += 1;
            } else if have >= ROLES_SURE {
                *shared += 1;
            }
        }
        threads.entry(role).or_default().add(thread);
    }
}

/// Bytes by whose they are.
fn by(senders: &[Sent]) -> BTreeMap<By, u64> {
    let mut all: BTreeMap<By, u64> = BTreeMap::new();
    for sent in senders {
        *all.entry(By::from(&sent.sender)).or_default() += sent.bytes;
    }
    all
}

/// The word that JSON has for it.
fn json_word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
