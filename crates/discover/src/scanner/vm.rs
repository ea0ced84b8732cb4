//! A VM from its process: threads, control groups, interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::state::{EVERY, Read, Scanner, THREADS_MAX};
use super::troubles::Troubles;
use crate::kvm::{Held, Vms};
use crate::libvirt::Domain;
use crate::part::{self, Part};
use crate::task::Stat;
use crate::{Kind, KnownBy, NamedBy, Origin, Role, Vm, VmThread, group, labels, owner, tap};
use lowtail_kernel::Name;
use lowtail_kernel::file::{self, Unread};

/// Characters of a name.
const NAME_MAX: usize = 256;
/// What tells the vCPUs of a VM.
#[derive(Clone, Copy, Debug)]
pub(super) enum Vcpus<'a> {
    /// Names of threads, and groups that are called like libvirt's: there is nothing better.
    Names,
    /// libvirt's groups, and names where it has none for vCPUs.
    Groups,
    /// The kernel: these threads run these vCPUs. A name counts for a vCPU that is held and that no thread was seen to
    /// run yet.
    Kvm(&'a BTreeMap<u32, u16>, &'a BTreeSet<u16>),
}

impl Scanner {
    /// The VM of process `pid`; nothing if that has ended.
    pub(super) fn vm(
        &mut self,
        pid: u32,
        kind: Kind,
        domain: Option<Domain>,
        helpers: &[u32],
        troubles: &mut Troubles,
    ) -> Option<Vm> {
        let kind = match kind {
            Kind::Qemu | Kind::Kvm if domain.is_some() => Kind::Libvirt,
            kind => kind,
        };
        let process = self.processes.get(&pid)?;
        let (started_ticks, given) = (process.stat.started_ticks, process.given.clone());
        let (uid, held) = (process.uid, process.held.clone());
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
        let known_by = match (&domain, held.is_vm(), kind) {
            (_, _, Kind::Declared) => KnownBy::Declared,
            (Some(_), _, _) => KnownBy::Libvirt,
            (None, true, _) => KnownBy::Kvm,
            (None, false, _) => KnownBy::Program,
        };
        let cgroup = self.remember(pid, domain.as_ref(), &read, &own, &held, troubles);
        let root_cgroup = self.vms[&pid].root_cgroup;
        let own_group = cgroup.as_deref().filter(|_| root_cgroup);
        let (name, named_by) = match &domain {
            Some(domain) => (domain.name(given.as_deref()).to_string(), NamedBy::Libvirt),
            None => named(kind, pid, given, uid, own_group),
        };
        let origin = Origin { known_by, named_by, uid, root_cgroup };
        let name = Name::new(name.chars().take(NAME_MAX).collect::<String>());
        let vm = &self.vms[&pid];
        if !vm.lost.is_empty() {
            let lost: Vec<String> = vm.lost.iter().map(Name::to_string).collect();
            let lost = lost.join(", ");
            troubles.told.push(format!(
                "`{name}`: no network namespace that we can look into has its interface {lost}"
            ));
        }
        let taps = vm.taps.clone();
        let numbers = held.numbers();
        let by_group = |thread: &Read| {
            let below =
                thread.2.as_deref().and_then(|group| group.strip_prefix(cgroup.as_deref()?).ok());
            matches!(part::of_group(below), Some(Part::Vcpu(_)))
        };
        let vcpus = match known_by {
            KnownBy::Libvirt if read.iter().any(by_group) => Vcpus::Groups,
            KnownBy::Libvirt | KnownBy::Kvm | KnownBy::Declared if held.is_vm() => {
                Vcpus::Kvm(&vm.runners, &numbers)
            }
            _ => Vcpus::Names,
        };
        let (mut threads, twice) = with_roles(kind, pid, cgroup.as_deref(), &own, read, vcpus);
        if held.is_vm() {
            self.only_the_kernels_workers(pid, &own, &mut threads);
        }
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
        Some(Vm { name, kind, origin, pid, started_ticks, cgroup, labels, threads, taps, groups })
    }

    /// Takes the role of vhost workers from threads that only call themselves so. Since Linux 6.4 those are threads of the
    /// process, and the kernel marks them; before, they are the kernel's own.
    fn only_the_kernels_workers(&self, pid: u32, own: &[u32], threads: &mut [VmThread]) {
        let tasks = self.roots.proc.join(pid.to_string()).join("task");
        for thread in threads.iter_mut().filter(|thread| matches!(thread.role, Role::Vhost(_))) {
            let stat = tasks.join(thread.tid.to_string()).join("stat");
            let started = || file::text(&stat, 4096).ok().and_then(|text| Stat::parse(&text));
            if own.binary_search(&thread.tid).is_ok() && !started().is_some_and(|stat| stat.worker)
            {
                thread.role = Role::Worker;
            }
        }
    }

    /// Interfaces and control group of the VM, from memory or anew.
    fn remember(
        &mut self,
        pid: u32,
        domain: Option<&Domain>,
        threads: &[Read],
        own: &[u32],
        held: &Held,
        troubles: &mut Troubles,
    ) -> Option<PathBuf> {
        let due = self.due(self.vms.get(&pid).map_or(0, |vm| vm.looks), pid, EVERY);
        let round = self.round;
        let known = self.vms.get(&pid).map(|vm| &vm.runners);
        // As long as a vCPU has no thread, somebody may begin to run it at any moment.
        let complete = known.is_some_and(|known| known.len() >= held.numbers().len());
        let runners = (held.is_vm() && (due || !complete)).then(|| {
            let vms = self.kvm.get_or_insert_with(|| Vms::list(&self.roots));
            vms.runners(&self.roots, pid, own, held, known.unwrap_or(&BTreeMap::new()))
        });
        let vm = self.vms.entry(pid).or_default();
        vm.round = round;
        vm.runners = runners.unwrap_or_else(|| std::mem::take(&mut vm.runners));
        vm.looks = vm.looks.saturating_add(1);
        if due {
            let taps = tap::of(&self.roots, pid);
            vm.denied = taps.as_ref().is_err_and(|error| *error == Unread::Denied);
            let taps = taps.unwrap_or_default();
            (vm.taps, vm.lost) = (taps.found, taps.lost);
            vm.cgroup = domain.map(|domain| domain.group.clone()).or_else(|| {
                let groups: Option<Vec<&Path>> =
                    threads.iter().map(|(_, _, group)| group.as_deref()).collect();
                let above = group::above_all(groups?)?;
                let own = threads.iter().map(|(tid, ..)| *tid).collect();
                let hierarchy = self.hierarchy.as_ref()?;
                group::is_own(hierarchy, &above, &own).then_some(above)
            });
            let both = self.hierarchy.as_ref().zip(vm.cgroup.as_deref());
            vm.root_cgroup =
                both.is_some_and(|(hierarchy, group)| owner::is_roots(hierarchy, group));
        }
        troubles.files += u32::from(vm.denied);
        let outside =
            self.hierarchy.is_some() && threads.iter().any(|(_, _, group)| group.is_none());
        troubles.outside += u32::from(outside);
        vm.cgroup.clone()
    }
}

/// The VM's name, and who has chosen it.
fn named(
    kind: Kind,
    pid: u32,
    given: Option<String>,
    uid: Option<u32>,
    root_cgroup: Option<&Path>,
) -> (String, NamedBy) {
    let given = given.unwrap_or_else(|| format!("{}-{pid}", word(kind)));
    match (uid, root_cgroup.and_then(Path::file_name)) {
        (Some(owner::ROOT), _) => (given, NamedBy::Root),
        // Root has put the process there, and has named the group.
        (_, Some(group)) => {
            let group = group.to_string_lossy();
            let units = [".scope", ".service", ".slice"];
            let plain = units.iter().find_map(|unit| group.strip_suffix(unit));
            (plain.unwrap_or(&group).to_string(), NamedBy::Cgroup)
        }
        (Some(uid), None) => (given, NamedBy::User(uid)),
        (None, None) => (given, NamedBy::Unknown),
    }
}

/// The threads with their roles, and the vCPUs that there are twice. `own` are those of the process itself.
pub(super) fn with_roles(
    kind: Kind,
    pid: u32,
    cgroup: Option<&Path>,
    own: &[u32],
    read: Vec<Read>,
    vcpus: Vcpus<'_>,
) -> (Vec<VmThread>, Vec<u16>) {
    let parts = read.iter().map(|(tid, comm, group)| {
        let below = group.as_deref().and_then(|group| group.strip_prefix(cgroup?).ok());
        let is_main = *tid == pid;
        let part = match vcpus {
            Vcpus::Names => part::part(kind, comm, below, is_main),
            Vcpus::Groups => match (part::of_group(below), part::part(kind, comm, None, is_main)) {
                (Some(part), _) => part,
                (None, Part::Vcpu(_)) => Part::Worker,
                (None, part) => part,
            },
            Vcpus::Kvm(runners, held) => {
                match (runners.get(tid), part::part(kind, comm, None, is_main)) {
                    (Some(number), _) => Part::Vcpu(*number),
                    (None, Part::Vcpu(number))
                        if !held.contains(&number) || runners.values().any(|n| *n == number) =>
                    {
                        Part::Worker
                    }
                    (None, part) => part,
                }
            }
        };
        match part {
            // A helper may be called what it likes.
            part if own.binary_search(tid).is_ok() || part == Part::Vhost => part,
            _ => Part::Worker,
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

/// What a VM is called that has no name.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Libvirt | Kind::Qemu => "qemu",
        Kind::Firecracker => "firecracker",
        Kind::CloudHypervisor => "cloud-hypervisor",
        Kind::Kvm => "kvm",
        Kind::Declared => "process",
        // `xl` names all domains.
        Kind::Xen => "domain",
    }
}
