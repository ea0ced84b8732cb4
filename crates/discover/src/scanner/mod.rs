//! Looks for machines again and again, and remembers what seldom changes.

mod declare;
mod machine;
mod troubles;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::machine::{Machine, Thread};
use self::troubles::Troubles;
use super::declared::Declared;
use super::kvm::{Held, Machines};
use super::libvirt::Domain;
use super::task::{self, Stat};
use super::{Kind, KnownBy, Roots, Users, Vm, owner, part, process};
use lowtail_kernel::cgroup::Hierarchy;
use lowtail_kernel::file::{self, Unread};

/// What is new is looked at in full this often: threads are named, moved and given interfaces after they start.
const NEW: u8 = 3;
/// Processes and machines that are known are looked at in full every so many scans, a part of them in each.
const EVERY: u32 = 8;
/// Threads, of which there are more, and which seldom change their name or group.
const THREADS_EVERY: u32 = 32;
/// A command line longer than that is not read to its end.
const CMDLINE_MAX: u64 = 64 << 10;
/// A list of what is mounted.
const MOUNTS_MAX: u64 = 16 << 20;
/// Open files that one scan looks at, of processes that are not known yet; the others are for the next scans.
const FILES_MAX: usize = 1 << 18;
/// A process' status: some 60 lines, of which the longest are lists of CPUs and NUMA nodes.
const STATUS_MAX: u64 = 64 << 10;
/// A list of control groups; each path has at most `PATH_MAX` bytes.
const CGROUP_MAX: u64 = 64 << 10;

/// What there was at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Found {
    /// The machines, in order of name and process.
    pub vms: Vec<Vm>,
    /// What could not be found out, and what to do about it: words to people.
    pub troubles: Vec<String>,
    /// Why it is not known which machines there are, where processes cannot be listed or looked at: one that is not here
    /// need not have ended, and one that is may have more threads and interfaces.
    pub unknown: Option<String>,
    /// The hierarchy in which their control groups are, if one controls processors here.
    #[serde(skip)]
    pub hierarchy: Option<Hierarchy>,
}

/// Looks for machines.
///
/// A process that was looked at and is no machine is looked at again in one of eight scans only, as are interfaces of
/// known machines; names and groups of their threads in one of 32. So a scan takes little time, and a machine that
/// an old process has become is found within eight. A machine of 2,000 threads takes 65 ms at first, then 11 ms, half of
/// which the kernel needs to list them (on a virtual machine of two cores, Linux 6.18).
#[derive(Debug)]
pub struct Scanner {
    roots: Roots,
    declared: Vec<Declared>,
    hierarchy: Option<Hierarchy>,
    round: u32,
    processes: HashMap<u32, Process>,
    threads: HashMap<u32, Thread>,
    machines: HashMap<u32, Machine>,
    /// When the processes started that the user has declared.
    meant: HashMap<u32, u64>,
    users: Users,
    /// Open files that this scan may look at still.
    files: usize,
    /// What debugfs tells of KVM in this scan, once somebody has asked.
    kvm: Option<Machines>,
}

/// A process, machine or not.
#[derive(Debug)]
struct Process {
    looks: u8,
    round: u32,
    stat: Stat,
    /// By its program.
    kind: Option<Kind>,
    /// By what it holds of KVM's.
    held: Held,
    /// Whose it is, if it could be a machine.
    uid: Option<u32>,
    /// By its control group, if root has made that.
    domain: Option<Domain>,
    /// By its command line.
    given: Option<String>,
    /// It is a thread of the kernel's that serves this thread.
    vhost_of: Option<u32>,
}

impl Scanner {
    /// One that knows nothing yet. Declared machines may come later.
    pub fn new(roots: Roots, declared: Vec<Declared>) -> Self {
        let hierarchy = hierarchy(&roots);
        Scanner {
            roots,
            declared,
            hierarchy,
            round: 0,
            processes: HashMap::new(),
            threads: HashMap::new(),
            machines: HashMap::new(),
            meant: HashMap::new(),
            users: Users::default(),
            files: FILES_MAX,
            kvm: None,
        }
    }

    /// The same, with users whose word counts on what is a machine without KVM.
    #[must_use]
    pub fn trusting(mut self, users: Users) -> Self {
        self.users = users;
        self
    }

    /// Looks at all processes there are now. It never fails: who ends meanwhile is left out.
    pub fn scan(&mut self) -> Found {
        self.round = self.round.wrapping_add(1);
        (self.files, self.kvm) = (FILES_MAX, None);
        let mut troubles = Troubles::default();
        let mut unknown = None;
        // Of what was read before this scan.
        let _ = file::lacked();
        match file::numbers(&self.roots.proc) {
            // There is always a process: this one.
            Ok(pids) if pids.is_empty() => {
                let proc = self.roots.proc.display();
                unknown = Some(format!(
                    "{proc} has no processes, so no machine can be found: mount proc at {proc}"
                ));
            }
            Ok(mut pids) => {
                // The first process is there as long as any is. A tree of files need not have it.
                let is_hidden = !pids.contains(&1) && self.roots.proc.join("self").is_symlink();
                if is_hidden {
                    troubles.told.push(format!(
                        "{} hides processes of others (its mount option hidepid). Machines may be missing; run lowtail as \
                         root, or with CAP_SYS_PTRACE",
                        self.roots.proc.display()
                    ));
                }
                // Whoever has so many open files that a scan ends with them is not first the next time.
                let first = (self.round as usize).wrapping_mul(31) % pids.len().max(1);
                pids.rotate_left(first);
                pids.into_iter().for_each(|pid| self.look(pid, &mut troubles));
            }
            Err(_) => {
                let why = "cannot be read, so no machine can be found";
                unknown = Some(format!("{} {why}", self.roots.proc.display()));
            }
        }
        let round = self.round;
        let listed = unknown.is_none();
        if listed {
            self.processes.retain(|_, process| process.round == round);
        }
        let mut vms = self.discovered(&mut troubles);
        for declared in self.declared.clone() {
            if let Err(why) = self.declare(&declared, &mut vms, &mut troubles) {
                troubles.told.push(format!("`{}`: {why}", declared.name));
            }
        }
        if let Some(error) = file::lacked().filter(|_| listed) {
            unknown = Some(format!(
                "{}: not all processes could be looked at, so machines and parts of them may be missing: {error}; let \
                 lowtail have more open files (ulimit -n) and memory",
                self.roots.proc.display()
            ));
        }
        match unknown {
            None => {
                self.threads.retain(|_, thread| thread.round == round);
                self.machines.retain(|_, machine| machine.round == round);
            }
            // What was read of it now may be a part: the next scan looks at all anew.
            Some(_) => self.look_anew(),
        }
        troubles.told.extend(unknown.clone());
        vms.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
        if self.hierarchy.is_none() {
            troubles.told.push(
                "no hierarchy of control groups here controls processors: quotas are not seen"
                    .to_string(),
            );
        }
        Found { vms, troubles: troubles.told(), unknown, hierarchy: self.hierarchy.clone() }
    }

    /// Trusts nothing that is remembered. Which threads run vCPUs is: that was seen.
    fn look_anew(&mut self) {
        self.processes.values_mut().for_each(|process| process.looks = 0);
        self.threads.values_mut().for_each(|thread| thread.looks = 0);
        self.machines.values_mut().for_each(|machine| machine.looks = 0);
    }

    /// Whether something known is to be looked at in full.
    fn due(&self, looks: u8, number: u32, every: u32) -> bool {
        looks < NEW || number.wrapping_add(self.round).is_multiple_of(every)
    }

    fn look(&mut self, pid: u32, troubles: &mut Troubles) {
        let (due, busy) = self.processes.get(&pid).map_or((true, true), |known| {
            let busy = known.kind.is_some()
                || known.held.is_machine()
                || known.domain.is_some()
                || known.vhost_of.is_some();
            (self.due(known.looks, pid, EVERY), busy)
        });
        let round = self.round;
        if let (false, false, Some(known)) = (due, busy, self.processes.get_mut(&pid)) {
            known.round = round;
            return;
        }
        let dir = self.roots.proc.join(pid.to_string());
        let stat = match file::text(&dir.join("stat"), 4096) {
            Ok(text) => Stat::parse(&text).filter(|stat| !stat.dead),
            Err(Unread::Denied) => {
                troubles.hidden += 1;
                None
            }
            Err(_) => None,
        };
        let Some(stat) = stat else {
            self.processes.remove(&pid);
            return;
        };
        let looks = match self.processes.get_mut(&pid) {
            // Who runs another program has another name, and who has its number has started later.
            Some(known) if known.stat == stat => {
                known.round = round;
                known.looks = known.looks.saturating_add(1);
                if !due {
                    return;
                }
                known.looks
            }
            _ => 1,
        };
        let process = self.recognise(pid, stat, looks, troubles);
        self.processes.insert(pid, process);
    }

    fn recognise(&mut self, pid: u32, stat: Stat, looks: u8, troubles: &mut Troubles) -> Process {
        let dir = &self.roots.proc.join(pid.to_string());
        let mut process = Process {
            looks,
            round: self.round,
            stat,
            kind: None,
            held: Held::default(),
            uid: None,
            domain: None,
            given: None,
            vhost_of: None,
        };
        if process.stat.kernel {
            process.vhost_of = part::vhost_owner(&process.stat.comm);
            return process;
        }
        process.kind = match file::link(&dir.join("exe")) {
            Ok(program) => process::kind(&program),
            Err(error) => {
                let kind = process::kind(&process.stat.comm);
                troubles.programs += u32::from(error == Unread::Denied && kind.is_some());
                kind
            }
        };
        // That files are not shown is told of machines.
        process.held = Held::of(&dir.join("fd"), &mut self.files).unwrap_or_default();
        troubles.unlooked += u32::from(self.files == 0);
        let domain = self.group_of(dir).and_then(|group| Domain::of(&group));
        process.domain = domain.filter(|domain| self.is_roots(&domain.group));
        let by_others = process.domain.as_ref().map(|_| Kind::Libvirt);
        let by_others = by_others.or_else(|| process.held.is_machine().then_some(Kind::Kvm));
        if let Some(kind) = process.kind.or(by_others) {
            process.uid = self.uid(pid);
            let cmdline = file::text(&dir.join("cmdline"), CMDLINE_MAX).unwrap_or_default();
            if process::is_probe(&cmdline) {
                process.kind = None;
            }
            process.given = process::name(kind, &cmdline);
        }
        process
    }

    /// The user whose process it is. Root of a container is not root.
    fn uid(&self, pid: u32) -> Option<u32> {
        let status = self.roots.proc.join(pid.to_string()).join("status");
        let uid = owner::user(&file::text(&status, STATUS_MAX).ok()?)?;
        (uid != owner::ROOT || owner::is_of_host(&self.roots, pid)).then_some(uid)
    }

    /// Whether root alone makes and fills this control group.
    pub(super) fn is_roots(&self, group: &Path) -> bool {
        let hierarchy = self.hierarchy.as_ref();
        hierarchy.is_some_and(|hierarchy| owner::is_roots(hierarchy, group))
    }

    fn group_of(&self, dir: &Path) -> Option<PathBuf> {
        let text = file::text(&dir.join("cgroup"), CGROUP_MAX).ok()?;
        task::group(&text, self.hierarchy.as_ref().map(|hierarchy| hierarchy.version))
    }

    /// All machines that are such without anyone's word.
    fn discovered(&mut self, troubles: &mut Troubles) -> Vec<Vm> {
        let mut mains = BTreeMap::new();
        for (&pid, process) in &self.processes {
            let Some((kind, _)) = process.is_machine(&self.users) else {
                if let (Some(_), Some(uid)) = (process.kind, process.uid) {
                    troubles.unproven.insert(uid);
                }
                continue;
            };
            // QEMU for a script and Cloud Hypervisor for the terminal fork; the child is part of the machine.
            let parent = self.processes.get(&process.stat.parent);
            let parent = parent.and_then(|parent| parent.is_machine(&self.users));
            if parent.is_none_or(|(of_parent, _)| of_parent != kind) {
                mains.insert(pid, kind);
            }
        }
        let domain = |pid: &u32| self.processes[pid].domain.clone();
        let led: BTreeSet<Domain> = mains.keys().filter_map(domain).collect();
        // Others in a domain's group help it (swtpm, virtiofsd). Where nobody's program is known the first one is it.
        let mut helpers: BTreeMap<Domain, Vec<u32>> = BTreeMap::new();
        for (&pid, process) in &self.processes {
            if let Some(domain) = process.domain.clone().filter(|_| !mains.contains_key(&pid)) {
                helpers.entry(domain).or_default().push(pid);
            }
        }
        for (domain, pids) in &mut helpers {
            pids.sort_unstable();
            if !led.contains(domain) {
                mains.insert(pids.remove(0), Kind::Libvirt);
            }
        }
        let found = mains.into_iter().filter_map(|(pid, kind)| {
            let domain = self.processes[&pid].domain.clone();
            let helpers = domain.as_ref().and_then(|domain| helpers.remove(domain));
            self.vm(pid, kind, domain, &helpers.unwrap_or_default(), troubles)
        });
        found.collect()
    }
}

impl Process {
    /// Which kind of machine it is and how that is known, if it is one. A program's name is its user's word; of processes in
    /// groups of libvirt's the one that runs such a program, or holds a machine of KVM's, leads.
    fn is_machine(&self, users: &Users) -> Option<(Kind, KnownBy)> {
        let kind = self.kind.or_else(|| self.held.is_machine().then_some(Kind::Kvm))?;
        if self.domain.is_some() {
            return Some((kind, KnownBy::Libvirt));
        }
        if self.held.is_machine() {
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
