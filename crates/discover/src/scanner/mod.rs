//! Looks for VMs again and again, and remembers what seldom changes.

mod declare;
mod state;
mod troubles;
mod vm;

use std::collections::{BTreeMap, BTreeSet};

use self::state::{EVERY, FILES_MAX, Process};
pub use self::state::{Scanner, hierarchy};
use self::troubles::Troubles;
use super::kvm::Held;
use super::libvirt::Domain;
use super::task::Stat;
use super::{Kind, Vm, part, process};
use lowtail_kernel::cgroup::Hierarchy;
use lowtail_kernel::file::{self, Unread};

/// A command line longer than that is not read to its end.
const CMDLINE_MAX: u64 = 64 << 10;
/// What there was at one time.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The VMs, in order of name and process.
    pub vms: Vec<Vm>,
    /// What could not be found out, and what to do about it: words to people.
    pub troubles: Vec<String>,
    /// Why it is not known which VMs there are, where processes cannot be listed or looked at: one that is not here
    /// need not have ended, and one that is may have more threads and interfaces.
    pub unknown: Option<String>,
    /// The hierarchy in which their control groups are, if one controls processors here.
    pub hierarchy: Option<Hierarchy>,
}

impl Scanner {
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
                    "{proc} has no processes, so no VM can be found: mount proc at {proc}"
                ));
            }
            Ok(mut pids) => {
                // The first process is there as long as any is. A tree of files need not have it.
                let is_hidden = !pids.contains(&1) && self.roots.proc.join("self").is_symlink();
                if is_hidden {
                    troubles.told.push(format!(
                        "{} hides processes of others (its mount option hidepid). VMs may be missing; run lowtail as \
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
                let why = "cannot be read, so no VM can be found";
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
                "{}: not all processes could be looked at, so VMs and parts of them may be missing: {error}; let \
                 lowtail have more open files (ulimit -n) and memory",
                self.roots.proc.display()
            ));
        }
        match unknown {
            None => {
                self.threads.retain(|_, thread| thread.round == round);
                self.vms.retain(|_, vm| vm.round == round);
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

    fn look(&mut self, pid: u32, troubles: &mut Troubles) {
        let (due, busy) = self.processes.get(&pid).map_or((true, true), |known| {
            let busy = known.kind.is_some()
                || known.held.is_vm()
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
        let mut before = None;
        let looks = match self.processes.get_mut(&pid) {
            // Who runs another program has another name, and who has its number has started later.
            Some(known) if known.stat == stat => {
                known.round = round;
                known.looks = known.looks.saturating_add(1);
                if !due {
                    return;
                }
                before = known.read_as.map(|read_as| (read_as, known.given.clone()));
                known.looks
            }
            _ => 1,
        };
        let process = self.recognise(pid, stat, looks, before, troubles);
        self.processes.insert(pid, process);
    }

    /// `before` is what its command line was taken for and said, if it was read.
    fn recognise(
        &mut self,
        pid: u32,
        stat: Stat,
        looks: u8,
        before: Option<((Kind, bool), Option<String>)>,
        troubles: &mut Troubles,
    ) -> Process {
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
            read_as: None,
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
        // That files are not shown is told of VMs.
        process.held = Held::of(&dir.join("fd"), &mut self.files).unwrap_or_default();
        troubles.unlooked += u32::from(self.files == 0);
        let domain = self.group_of(dir).and_then(|group| Domain::of(&group));
        process.domain = domain.filter(|domain| self.is_roots(&domain.group));
        let by_others = process.domain.as_ref().map(|_| Kind::Libvirt);
        let by_others = by_others.or_else(|| process.held.is_vm().then_some(Kind::Kvm));
        if let Some(kind) = process.kind.or(by_others) {
            process.uid = self.uid(pid);
            // Whoever reads it waits for a lock of the process's memory, which a thread may hold that does not get to run: of one
            // that is known, whose threads may be in a scheduler of ours, it is not read again.
            (process.read_as, process.given) = match before {
                Some((read_as, given)) if read_as.0 == kind => (Some(read_as), given),
                _ => match file::text(&dir.join("cmdline"), CMDLINE_MAX) {
                    Ok(text) => {
                        (Some((kind, process::is_probe(&text))), process::name(kind, &text))
                    }
                    Err(_) => (None, None),
                },
            };
            if process.read_as.is_some_and(|(_, is_probe)| is_probe) {
                process.kind = None;
            }
        }
        process
    }

    /// All VMs that are such without anyone's word.
    fn discovered(&mut self, troubles: &mut Troubles) -> Vec<Vm> {
        let mut mains = BTreeMap::new();
        for (&pid, process) in &self.processes {
            let Some((kind, _)) = process.is_vm(&self.users) else {
                if let (Some(_), Some(uid)) = (process.kind, process.uid) {
                    troubles.unproven.insert(uid);
                }
                continue;
            };
            // QEMU for a script and Cloud Hypervisor for the terminal fork; the child is part of the VM.
            let parent = self.processes.get(&process.stat.parent);
            let parent = parent.and_then(|parent| parent.is_vm(&self.users));
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
