//! Wishes with the places that they are for.

use std::collections::BTreeMap;
use std::io;

use super::domains::Domains;
use super::nice::nice;
use super::{Facts, Note, Target, VcpusBy, managed, want};
use crate::manage::{Group, Place, Sched, Setting, Thread, Unknown, Wanted};
use crate::policy::Policy;
use crate::workers::{self, Cpus, Wish as WorkersWish};
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
    /// What cannot be had here.
    pub notes: Vec<Note>,
}

/// What `policy` comes to for what was `found` on this host. Reads what control groups,
/// threads and uplinks there are, and asks libvirt for its machines; changes nothing.
pub fn settings(policy: &Policy, found: &Found, facts: &Facts) -> Settings {
    let domains = Domains::ask(&policy.libvirt, found);
    let mut facts = facts.clone();
    facts.know(domains.words());
    let facts = &facts;
    let mut wanted = want(policy, &found.vms, facts);
    let mut all = Settings { vcpus: wanted.vcpus, notes: wanted.notes, ..Settings::default() };
    if wanted.wishes.iter().any(|wish| wish.libvirts) {
        domains.unknown.iter().for_each(|why| all.note(why.clone()));
    }
    for vm in found.vms.iter().filter(|vm| vm.kind == Kind::Libvirt) {
        all.settings.extend(domains.take(vm, &mut wanted.wishes));
        if domains.unknown.is_none() && domains.of(vm).is_none() {
            let what =
                "libvirt does not know it: values are written to its control groups directly";
            all.notes.push(Note { vm: Some(vm.name.clone()), what: what.into(), fatal: false });
        }
    }
    for wish in wanted.wishes {
        let place = match &wish.target {
            Target::Group(path, key) => match &found.hierarchy {
                Some(hierarchy) => {
                    Group::new(hierarchy, path, *key).map(|group| group.map(Place::Group))
                }
                None => Ok(None),
            },
            Target::Thread(tid) => sched(*tid),
        };
        match place {
            Ok(Some(place)) => all.settings.push(Setting { place, to: wish.to, why: wish.why }),
            // It has ended since.
            Ok(None) => {}
            Err(error) => {
                all.note(format!("{}: {error}", wish.why));
                all.unknown.push(match wish.target {
                    Target::Group(path, _) => Unknown::Group(path),
                    Target::Thread(tid) => Unknown::Thread(tid),
                });
            }
        }
    }
    all.workers(policy, found, facts);
    if all.vcpus == VcpusBy::SmallFirst {
        all.classes(policy, found, facts);
    }
    all.marks(policy);
    if all.network(policy) {
        all.taps(policy, found, facts);
    }
    all.settings = joined(all.settings);
    all
}

pub(super) fn sched(tid: u32) -> io::Result<Option<Place>> {
    Ok(Thread::of(tid)?.map(|thread| Place::Sched(Sched { thread })))
}

impl Settings {
    /// For [`Hold::plan_wanted`](crate::manage::Hold::plan_wanted).
    pub fn wanted(&self) -> Wanted {
        Wanted { settings: self.settings.clone(), unknown: self.unknown.clone() }
    }

    pub(super) fn note(&mut self, what: String) {
        self.notes.push(Note { vm: None, what, fatal: false });
    }

    /// CPUs and weights of back-end workers.
    fn workers(&mut self, policy: &Policy, found: &Found, facts: &Facts) {
        let managed = managed(policy, &found.vms, facts);
        // How many of them there are moves those of others: nobody decides on that whose word does not count.
        let managed: Vec<_> = managed.into_iter().filter(|(_, rule)| !rule.only_limits).collect();
        let vms: Vec<&Vm> = managed.iter().map(|(vm, _)| *vm).collect();
        let wish = WorkersWish { cpus: policy.workers.cpus.clone(), nice: None, shares: None };
        self.place(found, &vms, &wish, facts);
        for (vm, rule) in &managed {
            let Some(weight) = rule.worker_weight.or(policy.workers.weight) else { continue };
            let shares = CgroupVersion::V2.kernel_shares(i64::try_from(weight).unwrap_or(i64::MAX));
            let (nice, shares) = (Some(nice(weight)), Some(shares.unsigned_abs()));
            self.place(found, &[vm], &WorkersWish { cpus: None, nice, shares }, facts);
        }
        if let (Some(cpus), false) = (&policy.workers.cpus, policy.workers.spread) {
            self.together(cpus, facts);
        }
    }

    fn place(&mut self, found: &Found, vms: &[&Vm], wish: &WorkersWish, facts: &Facts) {
        let placed = workers::place(found, vms, wish, &facts.cpus);
        self.settings.extend(placed.settings);
        placed.troubles.into_iter().for_each(|trouble| self.note(trouble));
        self.unknown.extend(placed.unknown);
    }

    /// All workers on all of these CPUs, instead of each on one.
    fn together(&mut self, cpus: &Cpus, facts: &Facts) {
        let on = match cpus {
            Cpus::All => facts.cpus.clone(),
            Cpus::AllButFirst => facts.cpus.iter().skip(1).copied().collect(),
            Cpus::These(cpus) => cpus.intersection(&facts.cpus).copied().collect(),
        };
        let list = crate::manage::cpus::list(&on);
        for setting in &mut self.settings {
            if matches!(setting.place, Place::Affinity(_)) {
                setting.to.clone_from(&list);
                setting.why = setting.why.replace("as many on each CPU", "on these CPUs");
            }
        }
    }
}

/// One setting for each thread: nice value and slice are in one place.
fn joined(settings: Vec<Setting>) -> Vec<Setting> {
    let mut at: BTreeMap<Place, usize> = BTreeMap::new();
    let mut joined: Vec<Setting> = Vec::new();
    for setting in settings {
        match at.get(&setting.place) {
            Some(&i) if matches!(setting.place, Place::Sched(_)) => {
                let first = &mut joined[i];
                first.to = format!("{} {}", first.to, setting.to);
                first.why = format!("{}; {}", first.why, setting.why);
            }
            _ => {
                at.insert(setting.place.clone(), joined.len());
                joined.push(setting);
            }
        }
    }
    joined
}
