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
use super::file::{self, Unread};
use super::libvirt::Domain;
use super::task::{self, Stat};
use super::{Kind, Roots, Vm, part, process};
use crate::cgroup::Hierarchy;

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
/// A list of control groups; each path has at most `PATH_MAX` bytes.
const CGROUP_MAX: u64 = 64 << 10;

/// What there was at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Found {
    /// The machines, in order of name and process.
    pub vms: Vec<Vm>,
    /// What could not be found out, and what to do about it: words to people.
    pub troubles: Vec<String>,
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
}

/// A process, machine or not.
#[derive(Debug)]
struct Process {
    looks: u8,
    round: u32,
    stat: Stat,
    /// By its program.
    kind: Option<Kind>,
    /// By its control group.
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
        }
    }

    /// Looks at all processes there are now. It never fails: who ends meanwhile is left out.
    pub fn scan(&mut self) -> Found {
        self.round = self.round.wrapping_add(1);
        let mut troubles = Troubles::default();
        match file::numbers(&self.roots.proc) {
            Ok(pids) => pids.into_iter().for_each(|pid| self.look(pid, &mut troubles)),
            Err(_) => troubles.told.push(format!(
                "{} cannot be read, so no machine can be found",
                self.roots.proc.display()
            )),
        }
        let round = self.round;
        self.processes.retain(|_, process| process.round == round);
        let mut vms = self.discovered(&mut troubles);
        for declared in self.declared.clone() {
            if let Err(why) = self.declare(&declared, &mut vms, &mut troubles) {
                troubles.told.push(format!("`{}`: {why}", declared.name));
            }
        }
        self.threads.retain(|_, thread| thread.round == round);
        self.machines.retain(|_, machine| machine.round == round);
        vms.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
        if self.hierarchy.is_none() {
            troubles.told.push(
                "no hierarchy of control groups here controls processors: quotas are not seen"
                    .to_string(),
            );
        }
        Found { vms, troubles: troubles.told(), hierarchy: self.hierarchy.clone() }
    }

    /// Whether something known is to be looked at in full.
    fn due(&self, looks: u8, number: u32, every: u32) -> bool {
        looks < NEW || number.wrapping_add(self.round).is_multiple_of(every)
    }

    fn look(&mut self, pid: u32, troubles: &mut Troubles) {
        let (due, busy) = self.processes.get(&pid).map_or((true, true), |known| {
            let busy = known.kind.is_some() || known.domain.is_some() || known.vhost_of.is_some();
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
        let process = self.recognise(&dir, stat, looks, troubles);
        self.processes.insert(pid, process);
    }

    fn recognise(&self, dir: &Path, stat: Stat, looks: u8, troubles: &mut Troubles) -> Process {
        let mut process = Process {
            looks,
            round: self.round,
            stat,
            kind: None,
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
        process.domain = self.group_of(dir).and_then(|group| Domain::of(&group));
        if let Some(kind) = process.kind.or_else(|| process.domain.as_ref().map(|_| Kind::Libvirt))
        {
            let cmdline = file::text(&dir.join("cmdline"), CMDLINE_MAX).unwrap_or_default();
            if process::is_probe(&cmdline) {
                process.kind = None;
            }
            process.given = process::name(kind, &cmdline);
        }
        process
    }

    fn group_of(&self, dir: &Path) -> Option<PathBuf> {
        let text = file::text(&dir.join("cgroup"), CGROUP_MAX).ok()?;
        task::group(&text, self.hierarchy.as_ref().map(|hierarchy| hierarchy.version))
    }

    /// All machines that are such without anyone's word.
    fn discovered(&mut self, troubles: &mut Troubles) -> Vec<Vm> {
        let mut mains = BTreeMap::new();
        for (&pid, process) in &self.processes {
            let Some(kind) = process.kind else { continue };
            // QEMU for a script and Cloud Hypervisor for the terminal fork; the child is part of the machine.
            let parent = self.processes.get(&process.stat.parent);
            if parent.is_none_or(|parent| parent.kind != Some(kind)) {
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

/// The hierarchy that controls processors, below these roots.
pub(crate) fn hierarchy(roots: &Roots) -> Option<Hierarchy> {
    let mounts = file::text(&roots.proc.join("self/mountinfo"), MOUNTS_MAX).ok()?;
    let controllers = |root: &Path| {
        file::text(&roots.place(root).join("cgroup.controllers"), 4096).unwrap_or_default()
    };
    let found = Hierarchy::among(&mounts, controllers)?;
    Some(Hierarchy { root: roots.place(&found.root), ..found })
}
