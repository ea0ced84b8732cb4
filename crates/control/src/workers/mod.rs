//! Where the workers of back ends run: threads of vhost and I/O threads, each on a CPU, as many on one as on another.
//!
//! vhost's workers are threads of the kernel before Linux 6.4, then of the VM's process
//! ([`Role`]); both can be given CPUs and nice values. They keep an ordinary
//! policy, so that whatever else wants their CPUs gets its part.

mod spread;

use std::collections::BTreeSet;
use std::path::Path;

use crate::manage::{Affinity, Group, Key, Knob, Sched, Setting, Thread, Unknown};
use lowtail_discover::{Found, Kind, Role, Vm, VmThread};
use lowtail_kernel::cgroup::{Hierarchy, Version};

use spread::{Worker, spread};

/// Which CPUs workers may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// All of the host but the first, which is left to everybody else.
    AllButFirst,
    /// These. If they are all of the host, nothing is placed: that has to be said ([`Cpus::All`]).
    These(BTreeSet<usize>),
    /// All of the host.
    All,
}

/// What workers shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Where they run; `None` leaves that as it is.
    pub cpus: Option<Cpus>,
    /// Nice value of those that are in a control group with others, -20 to 19; `None` leaves it as it is.
    pub nice: Option<i32>,
    /// Part of what its parent gets of a control group that has nobody but workers, as libvirt's `iothread1`: shares
    /// of v1, 2 to 262144; a weight of v2 is 100 for 1024 of them. `None` leaves it as it is.
    pub shares: Option<u64>,
}

/// What to set, and what cannot be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// VM by VM, in order of name.
    pub settings: Vec<Setting>,
    /// What could not be looked at: what is there stays.
    pub unknown: Vec<Unknown>,
    /// Words to people.
    pub troubles: Vec<String>,
}

/// What the workers of these VMs shall have. `host` is the CPUs of the host that are on.
///
/// Each worker gets one CPU, so that two CPUs differ by one worker at most. Who is alone on a CPU of those already, and
/// not one too many there, stays; the others go where the fewest are, those of one VM apart. The same VMs give the
/// same settings.
pub fn place(
    found: &Found,
    vms: &[&Vm],
    wanted: &WorkerSettings,
    host: &BTreeSet<usize>,
) -> Placed {
    let mut placed = Placed::default();
    let cpus = match cpus(wanted.cpus.as_ref(), host) {
        Ok(cpus) => cpus,
        Err(why) => {
            placed.troubles.push(why);
            Vec::new()
        }
    };
    let mut workers: Vec<(&Vm, &VmThread, Thread)> = Vec::new();
    for vm in vms {
        for thread in vm.threads.iter().filter(|thread| is_worker(thread.role)) {
            match known(vm, thread) {
                Ok(Some(known)) => workers.push((vm, thread, known)),
                // It has ended since.
                Ok(None) => {}
                Err(error) => {
                    placed.troubles.push(format!("{}: {error}", vm.name));
                    placed.unknown.push(Unknown::Thread(thread.tid));
                }
            }
        }
    }
    if !cpus.is_empty() {
        let now = workers.iter().map(|(vm, _, thread)| {
            let now = Knob::Affinity(Affinity { thread: *thread }).read();
            Worker { vm: vm.pid, alone_on: now.ok().flatten().and_then(|cpus| cpus.parse().ok()) }
        });
        let to = spread(&now.collect::<Vec<_>>(), &cpus);
        for ((vm, thread, known), cpu) in workers.iter().zip(to) {
            let knob = Knob::Affinity(Affinity { thread: *known });
            let why = format!("{} of {}: as many on each CPU", word(vm, thread.role), vm.name);
            placed.settings.push(Setting { knob, to: cpu.to_string(), why });
        }
    }
    let mut weighted = BTreeSet::new();
    for (vm, thread, known) in &workers {
        let why = format!("{} of {}: a weight of its own", word(vm, thread.role), vm.name);
        match (own_group(vm, thread), wanted.shares, wanted.nice) {
            (Some(group), Some(shares), _) => {
                let hierarchy = found.hierarchy.as_ref();
                let Some(hierarchy) = hierarchy.filter(|_| weighted.insert(group)) else {
                    continue;
                };
                match weight(hierarchy, group, shares) {
                    Ok(Some((knob, to))) => placed.settings.push(Setting { knob, to, why }),
                    Ok(None) => {}
                    Err(error) => {
                        placed.troubles.push(format!("{}: {error}", vm.name));
                        placed.unknown.push(Unknown::Group(group.to_path_buf()));
                    }
                }
            }
            (_, _, Some(nice)) => {
                let knob = Knob::Sched(Sched { thread: *known });
                placed.settings.push(Setting { knob, to: format!("nice={nice}"), why });
            }
            _ => {}
        }
    }
    placed
}

/// The thread as one that can be told from others of its number.
fn known(vm: &Vm, thread: &VmThread) -> std::io::Result<Option<Thread>> {
    match Thread::of_process(vm.pid, thread.tid)? {
        // Before Linux 6.4 it is a thread of the kernel's, a process of its own.
        None if matches!(thread.role, Role::Vhost(_)) => Thread::of(thread.tid),
        known => Ok(known),
    }
}

fn is_worker(role: Role) -> bool {
    matches!(role, Role::Vhost(_) | Role::IoThread(_))
}

fn word(vm: &Vm, role: Role) -> String {
    match role {
        Role::Vhost(n) if vm.kind == Kind::Xen => format!("netback's thread of queue {n}"),
        Role::Vhost(n) => format!("vhost worker {n}"),
        Role::IoThread(n) => format!("I/O thread {n}"),
        _ => "worker".into(),
    }
}

/// The CPUs for workers, lowest first.
fn cpus(wanted: Option<&Cpus>, host: &BTreeSet<usize>) -> Result<Vec<usize>, String> {
    let cpus: Vec<usize> = match wanted {
        None => return Ok(Vec::new()),
        Some(Cpus::All) => host.iter().copied().collect(),
        Some(Cpus::AllButFirst) => host.iter().copied().skip(1).collect(),
        Some(Cpus::These(cpus)) if cpus.is_superset(host) => {
            let why = "workers are left where they are: they would have all CPUs of this host; say `all` if they shall";
            return Err(why.into());
        }
        Some(Cpus::These(cpus)) => cpus.intersection(host).copied().collect(),
    };
    match cpus.is_empty() {
        true => Err("workers are left where they are: this host has no CPU for them".into()),
        false => Ok(cpus),
    }
}

/// The group that the thread has with other workers only.
fn own_group<'a>(vm: &Vm, thread: &'a VmThread) -> Option<&'a Path> {
    let group = thread.cgroup.as_deref()?;
    let inside = vm
        .threads
        .iter()
        .filter(|other| other.cgroup.as_deref().is_some_and(|other| other.starts_with(group)));
    let known = vm.groups.iter().any(|known| known.path == group && !known.shared);
    (known && inside.into_iter().all(|other| is_worker(other.role))).then_some(group)
}

fn weight(
    hierarchy: &Hierarchy,
    group: &Path,
    shares: u64,
) -> std::io::Result<Option<(Knob, String)>> {
    let key = match hierarchy.version {
        Version::V1 => Key::CpuShares,
        Version::V2 => Key::CpuWeight,
    };
    let (_, to) = hierarchy.shares(shares);
    let group = Group::new(hierarchy, group, key)?;
    Ok(group.map(|group| (Knob::Group(group), to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_user_space_keeps_a_cpu_unless_told() {
        let host = BTreeSet::from([0, 1, 3]);
        let these = |cpus: &[usize]| Cpus::These(cpus.iter().copied().collect());
        assert_eq!(cpus(Some(&Cpus::AllButFirst), &host), Ok(vec![1, 3]));
        assert_eq!(cpus(Some(&Cpus::All), &host), Ok(vec![0, 1, 3]));
        // What is not on is not had.
        assert_eq!(cpus(Some(&these(&[2, 3])), &host), Ok(vec![3]));
        assert!(cpus(Some(&these(&[0, 1, 2, 3])), &host).is_err_and(|why| why.contains("`all`")));
        assert!(cpus(Some(&these(&[2])), &host).is_err());
        assert!(cpus(Some(&Cpus::AllButFirst), &BTreeSet::from([0])).is_err());
        assert_eq!(cpus(None, &host), Ok(Vec::new()));
    }
}
