//! A machine from its process: threads, control groups, interfaces.

use std::path::{Path, PathBuf};

use super::{EVERY, Scanner, THREADS_EVERY, Troubles};
use crate::discover::file::{self, Unread};
use crate::discover::libvirt::Domain;
use crate::discover::part;
use crate::discover::{Kind, Name, Role, Tap, Vm, VmThread, group, labels, tap};

/// Characters of a name.
const NAME_MAX: usize = 256;
/// Threads of one machine.
const THREADS_MAX: usize = 65_536;

/// A thread as it was read: its number, its name, its control group.
pub(super) type Read = (u32, String, Option<PathBuf>);

/// What is remembered of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    looks: u8,
    pub(super) round: u32,
    comm: String,
    group: Option<PathBuf>,
}

/// What is remembered of a machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    looks: u8,
    pub(super) round: u32,
    taps: Vec<Tap>,
    lost: Vec<Name>,
    denied: bool,
    cgroup: Option<PathBuf>,
}

impl Scanner {
    /// The machine of process `pid`; nothing if that has ended.
    pub(super) fn vm(
        &mut self,
        pid: u32,
        kind: Kind,
        domain: Option<Domain>,
        helpers: &[u32],
        troubles: &mut Troubles,
    ) -> Option<Vm> {
        let kind = match kind {
            Kind::Qemu if domain.is_some() => Kind::Libvirt,
            kind => kind,
        };
        let process = self.processes.get(&pid)?;
        let (started_ticks, given) = (process.stat.started_ticks, process.given.clone());
        let name = match (&domain, given.as_deref()) {
            (Some(domain), given) => domain.name(given).to_string(),
            (None, Some(given)) => given.to_string(),
            (None, None) => format!("{}-{pid}", word(kind)),
        };
        let mut read = self.tasks(pid);
        let own: Vec<u32> = read.iter().map(|(tid, ..)| *tid).collect();
        if own.is_empty() {
            return None;
        }
        read.extend(helpers.iter().flat_map(|helper| self.tasks(*helper)));
        let vhosts = self.processes.iter().filter_map(|(tid, process)| {
            process.vhost_of.filter(|owner| own.binary_search(owner).is_ok()).map(|_| *tid)
        });
        let vhosts: Vec<u32> = vhosts.collect();
        for tid in vhosts {
            let dir = self.roots.proc.join(tid.to_string());
            read.extend(self.thread(tid, &dir).map(|(comm, group)| (tid, comm, group)));
        }
        read.sort_unstable();
        read.truncate(THREADS_MAX);
        let name = Name::new(name.chars().take(NAME_MAX).collect::<String>());
        let domain = domain.map(|domain| domain.group);
        let cgroup = self.remember(pid, domain, &read, troubles);
        let machine = &self.machines[&pid];
        if !machine.lost.is_empty() {
            let lost: Vec<String> = machine.lost.iter().map(Name::to_string).collect();
            let lost = lost.join(", ");
            troubles.told.push(format!(
                "`{name}`: no network namespace that we can look into has its interface {lost}"
            ));
        }
        let taps = machine.taps.clone();
        let (threads, twice) = with_roles(kind, pid, cgroup.as_deref(), &own, read);
        if !twice.is_empty() {
            troubles.told.push(format!(
                "`{name}`: several threads say to be vCPU {}; the first counts",
                twice.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
            ));
        }
        if is_nameless(kind, &threads) {
            troubles.told.push(format!(
                "`{name}`: its threads have no names, so vCPUs are not told from others; start QEMU with \
                 -name {name},debug-threads=on"
            ));
        }
        let groups = group::all(cgroup.as_deref(), &threads);
        let labels = labels::of(self.hierarchy.as_ref(), cgroup.as_deref());
        Some(Vm { name, kind, pid, started_ticks, cgroup, labels, threads, taps, groups })
    }

    /// Interfaces and control group of the machine, from memory or anew.
    fn remember(
        &mut self,
        pid: u32,
        domain: Option<PathBuf>,
        threads: &[Read],
        troubles: &mut Troubles,
    ) -> Option<PathBuf> {
        let due = self.due(self.machines.get(&pid).map_or(0, |machine| machine.looks), pid, EVERY);
        let round = self.round;
        let machine = self.machines.entry(pid).or_default();
        machine.round = round;
        machine.looks = machine.looks.saturating_add(1);
        if due {
            let taps = tap::of(&self.roots, pid);
            machine.denied = taps.as_ref().is_err_and(|error| *error == Unread::Denied);
            let taps = taps.unwrap_or_default();
            (machine.taps, machine.lost) = (taps.found, taps.lost);
            machine.cgroup = domain.or_else(|| {
                let groups: Option<Vec<&Path>> =
                    threads.iter().map(|(_, _, group)| group.as_deref()).collect();
                let above = group::above_all(groups?)?;
                let own = threads.iter().map(|(tid, ..)| *tid).collect();
                let hierarchy = self.hierarchy.as_ref()?;
                group::is_own(hierarchy, &above, &own).then_some(above)
            });
        }
        troubles.files += u32::from(machine.denied);
        let outside =
            self.hierarchy.is_some() && threads.iter().any(|(_, _, group)| group.is_none());
        troubles.outside += u32::from(outside);
        machine.cgroup.clone()
    }

    /// The threads of a process, with their names and groups.
    fn tasks(&mut self, pid: u32) -> Vec<Read> {
        let dir = self.roots.proc.join(pid.to_string()).join("task");
        let tids = file::numbers(&dir).unwrap_or_default();
        let threads = tids.into_iter().take(THREADS_MAX).filter_map(|tid| {
            let (comm, group) = self.thread(tid, &dir.join(tid.to_string()))?;
            Some((tid, comm, group))
        });
        threads.collect()
    }

    /// Name and group of a thread, from memory or anew.
    pub(super) fn thread(&mut self, tid: u32, dir: &Path) -> Option<(String, Option<PathBuf>)> {
        let round = self.round;
        let looks = self.threads.get(&tid).map_or(0, |known| known.looks);
        if !self.due(looks, tid, THREADS_EVERY)
            && let Some(known) = self.threads.get_mut(&tid)
        {
            known.round = round;
            return Some((known.comm.clone(), known.group.clone()));
        }
        let comm = file::text(&dir.join("comm"), 64).ok()?;
        let comm = comm.strip_suffix('\n').unwrap_or(&comm).to_string();
        let group = self.group_of(dir);
        let looks = looks.saturating_add(1);
        let known = Thread { looks, round, comm: comm.clone(), group: group.clone() };
        self.threads.insert(tid, known);
        Some((comm, group))
    }
}

/// The threads with their roles, and the vCPUs that there are twice. `own` are those of the process itself.
pub(super) fn with_roles(
    kind: Kind,
    pid: u32,
    cgroup: Option<&Path>,
    own: &[u32],
    read: Vec<Read>,
) -> (Vec<VmThread>, Vec<u16>) {
    let parts = read.iter().map(|(tid, comm, group)| {
        let below = group.as_deref().and_then(|group| group.strip_prefix(cgroup?).ok());
        match part::part(kind, comm, below, *tid == pid) {
            // A helper may be called what it likes.
            part if own.binary_search(tid).is_ok() || part == part::Part::Vhost => part,
            _ => part::Part::Worker,
        }
    });
    let (roles, twice) = part::roles(&parts.collect::<Vec<_>>());
    let threads = read.into_iter().zip(roles).map(|((tid, comm, group), role)| {
        let topmost = |group: &PathBuf| group.as_os_str().is_empty();
        let cgroup = group.filter(|group| !topmost(group) && Some(group.as_path()) != cgroup);
        VmThread { tid, role, comm: Name::new(comm), cgroup }
    });
    (threads.collect(), twice)
}

/// Whether all threads of a QEMU are called the same: main, one that frees memory, and a vCPU at least.
fn is_nameless(kind: Kind, threads: &[VmThread]) -> bool {
    let of_qemu = matches!(kind, Kind::Qemu | Kind::Libvirt);
    let own = || threads.iter().filter(|thread| !matches!(thread.role, Role::Vhost(_)));
    let no_vcpu = !threads.iter().any(|thread| matches!(thread.role, Role::Vcpu(_)));
    let same = own().all(|thread| thread.comm == threads[0].comm);
    of_qemu && no_vcpu && same && own().count() >= 3
}

/// What a machine is called that has no name.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Libvirt | Kind::Qemu => "qemu",
        Kind::Firecracker => "firecracker",
        Kind::CloudHypervisor => "cloud-hypervisor",
        Kind::Declared => "process",
    }
}
