//! Wishes with the places that they are for.

use std::collections::BTreeMap;

use super::domains::Domains;
use super::nice::nice;
use super::threads::sched;
use super::{Desired, HostCapabilities, Note, Target, VcpusBy, managed, resolve};
use crate::manage::{Group, Knob, Setting, Unknown, Wanted};
use crate::policy::Policy;
use crate::workers::{self, Cpus, WorkerSettings};
use lowtail_discover::{Found, Kind, Vm};
use lowtail_libvirt::range::CgroupVersion;

/// What to set on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Who schedules vCPUs.
    pub vcpus: VcpusBy,
    /// For [`plan()`](crate::manage::plan()).
    pub settings: Vec<Setting>,
    /// What could not be looked at: what is there stays.
    pub unknown: Vec<Unknown>,
    /// What cannot be set here.
    pub notes: Vec<Note>,
}

/// What `policy` wants of what was `found` on this host. Reads what control groups,
/// threads and uplinks there are, and asks libvirt for its VMs; changes nothing.
pub fn settings(policy: &Policy, found: &Found, capabilities: &HostCapabilities) -> Settings {
    let mut all = match &capabilities.xen {
        Some(host) => Settings::of_domains(policy, found, capabilities, host),
        None => of_processes(policy, found, capabilities),
    };
    all.workers(policy, found, capabilities);
    if all.vcpus == VcpusBy::SmallFirst {
        all.classes(policy, found, capabilities);
    }
    all.marks(policy);
    if let Some(params) = all.network(policy) {
        all.taps(policy, &params, found, capabilities);
    }
    all.settings = joined(all.settings);
    all
}

/// What VMs that are processes of this host shall have, without their back ends and queues.
fn of_processes(policy: &Policy, found: &Found, capabilities: &HostCapabilities) -> Settings {
    let domains = Domains::ask(&policy.libvirt, found);
    let mut capabilities = capabilities.clone();
    capabilities.know(domains.libvirt_labels());
    let capabilities = &capabilities;
    let mut wanted = resolve(policy, &found.vms, capabilities);
    let mut all = Settings { vcpus: wanted.vcpus, notes: wanted.notes, ..Settings::default() };
    if wanted.desired.iter().any(|wish| wish.libvirts) {
        domains.unknown.iter().for_each(|why| all.note(why.clone()));
    }
    for vm in found.vms.iter().filter(|vm| vm.kind == Kind::Libvirt) {
        all.settings.extend(domains.take(vm, &mut wanted.desired));
        if domains.unknown.is_none() && domains.of(vm).is_none() {
            let what =
                "libvirt does not know it: values are written to its control groups directly";
            all.note_of(vm, what.to_string());
        }
    }
    all.look_up(wanted.desired, found);
    all
}

impl Settings {
    /// For [`HostLock::plan_wanted`](crate::manage::HostLock::plan_wanted).
    pub fn wanted(&self) -> Wanted {
        Wanted { settings: self.settings.clone(), unknown: self.unknown.clone() }
    }

    pub(super) fn note(&mut self, what: String) {
        self.notes.push(Note { vm: None, what, fatal: false });
    }

    pub(super) fn note_of(&mut self, vm: &Vm, what: String) {
        self.notes.push(Note { vm: Some(vm.name.clone()), what, fatal: false });
    }

    /// Adds wishes with the places that they are for, as far as those are there.
    pub(super) fn look_up(&mut self, wishes: Vec<Desired>, found: &Found) {
        for wish in wishes {
            let knob = match &wish.target {
                Target::Group(path, key) => match &found.hierarchy {
                    Some(hierarchy) => {
                        Group::new(hierarchy, path, *key).map(|group| group.map(Knob::Group))
                    }
                    None => Ok(None),
                },
                Target::Thread(tid) => sched(*tid),
            };
            match knob {
                Ok(Some(knob)) => self.settings.push(Setting { knob, to: wish.to, why: wish.why }),
                // It has ended since.
                Ok(None) => {}
                Err(error) => {
                    self.note(format!("{}: {error}", wish.why));
                    self.unknown.push(match wish.target {
                        Target::Group(path, _) => Unknown::Group(path),
                        Target::Thread(tid) => Unknown::Thread(tid),
                    });
                }
            }
        }
    }

    /// CPUs and weights of back-end workers.
    fn workers(&mut self, policy: &Policy, found: &Found, capabilities: &HostCapabilities) {
        let managed = managed(policy, &found.vms, capabilities);
        // How many of them there are moves those of others: nobody decides on that whose word does not count.
        let managed: Vec<_> = managed.into_iter().filter(|(_, rule)| !rule.only_limits).collect();
        let vms: Vec<&Vm> = managed.iter().map(|(vm, _)| *vm).collect();
        let wish = WorkerSettings { cpus: policy.workers.cpus.clone(), nice: None, shares: None };
        self.place(found, &vms, &wish, capabilities);
        for (vm, rule) in &managed {
            let Some(weight) = rule.worker_weight.or(policy.workers.weight) else { continue };
            let shares = CgroupVersion::V2.kernel_shares(i64::try_from(weight).unwrap_or(i64::MAX));
            let (nice, shares) = (Some(nice(weight)), Some(shares.unsigned_abs()));
            self.place(found, &[vm], &WorkerSettings { cpus: None, nice, shares }, capabilities);
        }
        if let (Some(cpus), false) = (&policy.workers.cpus, policy.workers.spread) {
            self.together(cpus, capabilities);
        }
    }

    fn place(
        &mut self,
        found: &Found,
        vms: &[&Vm],
        wish: &WorkerSettings,
        capabilities: &HostCapabilities,
    ) {
        let placed = workers::place(found, vms, wish, &capabilities.cpus);
        self.settings.extend(placed.settings);
        placed.troubles.into_iter().for_each(|trouble| self.note(trouble));
        self.unknown.extend(placed.unknown);
    }

    /// All workers on all of these CPUs, instead of each on one.
    fn together(&mut self, cpus: &Cpus, capabilities: &HostCapabilities) {
        let on = match cpus {
            Cpus::All => capabilities.cpus.clone(),
            Cpus::AllButFirst => capabilities.cpus.iter().skip(1).copied().collect(),
            Cpus::These(cpus) => cpus.intersection(&capabilities.cpus).copied().collect(),
        };
        let list = crate::manage::cpus::list(&on);
        for setting in &mut self.settings {
            if matches!(setting.knob, Knob::Affinity(_)) {
                setting.to.clone_from(&list);
                setting.why = setting.why.replace("as many on each CPU", "on these CPUs");
            }
        }
    }
}

/// One setting for each thread: nice value and slice are in one place.
fn joined(settings: Vec<Setting>) -> Vec<Setting> {
    let mut at: BTreeMap<Knob, usize> = BTreeMap::new();
    let mut joined: Vec<Setting> = Vec::new();
    for setting in settings {
        match at.get(&setting.knob) {
            Some(&i) if matches!(setting.knob, Knob::Sched(_)) => {
                let first = &mut joined[i];
                first.to = format!("{} {}", first.to, setting.to);
                first.why = format!("{}; {}", first.why, setting.why);
            }
            _ => {
                at.insert(setting.knob.clone(), joined.len());
                joined.push(setting);
            }
        }
    }
    joined
}
