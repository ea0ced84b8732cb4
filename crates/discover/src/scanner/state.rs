//! What a scanner remembers, and what it reads of single processes and threads.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::declared::Declared;
use crate::kvm::{Held, Vms};
use crate::libvirt::Domain;
use crate::task::{self, Stat};
use crate::{Kind, KnownBy, Tap, Users, owner};
use lowtail_kernel::cgroup::Hierarchy;
use lowtail_kernel::file;
use lowtail_kernel::{Name, Roots};

/// What is new is looked at in full this often: threads are named, moved and given interfaces after they start.
const NEW: u8 = 3;
/// Processes and VMs that are known are looked at in full every so many scans, a part of them in each.
pub(super) const EVERY: u32 = 8;
/// Threads, of which there are more, and which seldom change their name or group.
const THREADS_EVERY: u32 = 32;
/// Open files that one scan looks at, of processes that are not known yet; the others are for the next scans.
pub(super) const FILES_MAX: usize = 1 << 18;
/// A list of what is mounted.
const MOUNTS_MAX: u64 = 16 << 20;
/// Threads of one VM.
pub(super) const THREADS_MAX: usize = 65_536;

/// A process' status: some 60 lines, of which the longest are lists of CPUs and NUMA nodes.
const STATUS_MAX: u64 = 64 << 10;
/// A list of control groups; each path has at most `PATH_MAX` bytes.
const CGROUP_MAX: u64 = 64 << 10;

/// A thread as it was read: its number, its name, its control group.
pub(super) type Read = (u32, String, Option<PathBuf>);

/// What is remembered of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) looks: u8,
    pub(super) round: u32,
    pub(super) comm: String,
    pub(super) group: Option<PathBuf>,
}

/// What is remembered of a VM.
#[derive(Debug, Default)]
pub(super) struct KnownVm {
    pub(super) looks: u8,
    pub(super) round: u32,
    pub(super) taps: Vec<Tap>,
    pub(super) lost: Vec<Name>,
    pub(super) denied: bool,
    pub(super) cgroup: Option<PathBuf>,
    pub(super) root_cgroup: bool,
    /// Threads that run vCPUs of KVM's.
    pub(super) runners: BTreeMap<u32, u16>,
}

/// Looks for VMs.
///
/// A process that was looked at and is no VM is looked at again in one of eight scans only, as are interfaces of
/// known VMs; names and groups of their threads in one of 32. So a scan takes little time, and a VM that
/// an old process has become is found within eight. A VM of 2,000 threads takes 65 ms at first, then 11 ms, half of
/// which the kernel needs to list them (on a virtual machine of two cores, Linux 6.18).
#[derive(Debug)]
pub struct Scanner {
    pub(super) roots: Roots,
    pub(super) declared: Vec<Declared>,
    pub(super) hierarchy: Option<Hierarchy>,
    pub(super) round: u32,
    pub(super) processes: HashMap<u32, Process>,
    pub(super) threads: HashMap<u32, Thread>,
    pub(super) vms: HashMap<u32, KnownVm>,
    /// When the processes started that the user has declared.
    pub(super) meant: HashMap<u32, u64>,
    pub(super) users: Users,
    /// Open files that this scan may look at still.
    pub(super) files: usize,
    /// What debugfs tells of KVM in this scan, once somebody has asked.
    pub(super) kvm: Option<Vms>,
}

/// A process, VM or not.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) looks: u8,
    pub(super) round: u32,
    pub(super) stat: Stat,
    /// By its program.
    pub(super) kind: Option<Kind>,
    /// By what it holds of KVM's.
    pub(super) held: Held,
    /// Whose it is, if it could be a VM.
    pub(super) uid: Option<u32>,
    /// By its control group, if root has made that.
    pub(super) domain: Option<Domain>,
    /// By its command line.
    pub(super) given: Option<String>,
    /// Its command line was read as that of such a VM, and whether it is one that only tells what it can do.
    pub(super) read_as: Option<(Kind, bool)>,
    /// It is a thread of the kernel's that serves this thread.
    pub(super) vhost_of: Option<u32>,
}

impl Scanner {
    /// One that knows nothing yet. Declared VMs may come later.
    pub fn new(roots: Roots, declared: Vec<Declared>) -> Self {
        let hierarchy = hierarchy(&roots);
        Scanner {
            roots,
            declared,
            hierarchy,
            round: 0,
            processes: HashMap::new(),
            threads: HashMap::new(),
            vms: HashMap::new(),
            meant: HashMap::new(),
            users: Users::default(),
            files: FILES_MAX,
            kvm: None,
        }
    }

    /// The same, with users whose word counts on what is a VM without KVM.
    #[must_use]
    pub fn trusting(mut self, users: Users) -> Self {
        self.users = users;
        self
    }

    /// Trusts nothing that is remembered. Which threads run vCPUs is: that was seen.
    pub(super) fn look_anew(&mut self) {
        self.processes.values_mut().for_each(|process| process.looks = 0);
        self.threads.values_mut().for_each(|thread| thread.looks = 0);
        self.vms.values_mut().for_each(|vm| vm.looks = 0);
    }

    /// Whether something known is to be looked at in full.
    pub(super) fn due(&self, looks: u8, number: u32, every: u32) -> bool {
        looks < NEW || number.wrapping_add(self.round).is_multiple_of(every)
    }

    /// The user whose process it is. Root of a container is not root.
    pub(super) fn uid(&self, pid: u32) -> Option<u32> {
        let status = self.roots.proc.join(pid.to_string()).join("status");
        let uid = owner::user(&file::text(&status, STATUS_MAX).ok()?)?;
        (uid != owner::ROOT || owner::is_of_host(&self.roots, pid)).then_some(uid)
    }

    /// Whether root alone makes and fills this control group.
    pub(super) fn is_roots(&self, group: &Path) -> bool {
        let hierarchy = self.hierarchy.as_ref();
        hierarchy.is_some_and(|hierarchy| owner::is_roots(hierarchy, group))
    }

    pub(super) fn group_of(&self, dir: &Path) -> Option<PathBuf> {
        let text = file::text(&dir.join("cgroup"), CGROUP_MAX).ok()?;
        task::group(&text, self.hierarchy.as_ref().map(|hierarchy| hierarchy.version))
    }

    /// The threads of a process, with their names and groups.
    pub(super) fn tasks(&mut self, pid: u32) -> Vec<Read> {
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

impl Process {
    /// Which kind of VM it is and how that is known, if it is one. A program's name is its user's word; of processes in
    /// groups of libvirt's the one that runs such a program, or holds a VM of KVM's, leads.
    pub(super) fn is_vm(&self, users: &Users) -> Option<(Kind, KnownBy)> {
        let kind = self.kind.or_else(|| self.held.is_vm().then_some(Kind::Kvm))?;
        if self.domain.is_some() {
            return Some((kind, KnownBy::Libvirt));
        }
        if self.held.is_vm() {
            return Some((kind, KnownBy::Kvm));
        }
        let may_say = self.uid.is_some_and(|uid| users.contains(uid));
        may_say.then_some((kind, KnownBy::Program))
    }
}

/// The hierarchy that controls processors, below these roots.
pub fn hierarchy(roots: &Roots) -> Option<Hierarchy> {
    let mounts = file::text(&roots.proc.join("self/mountinfo"), MOUNTS_MAX).ok()?;
    let controllers = |root: &Path| {
        file::text(&roots.place(root).join("cgroup.controllers"), 4096).unwrap_or_default()
    };
    let found = Hierarchy::among(&mounts, controllers)?;
    Some(Hierarchy { root: roots.place(&found.root), ..found })
}
