//! VMs by the user's word.

use std::path::{Path, PathBuf};

use super::state::Scanner;
use super::troubles::Troubles;
use super::vm::{Vcpus, with_roles};
use crate::declared::{Declared, Target};
use crate::{Kind, KnownBy, NamedBy, Origin, Vm, group, labels, tap};
use lowtail_kernel::Name;
use lowtail_kernel::file::{self, Unread};

impl Scanner {
    /// Puts what the user has declared in place of what was found in it.
    pub(super) fn declare(
        &mut self,
        declared: &Declared,
        vms: &mut Vec<Vm>,
        troubles: &mut Troubles,
    ) -> Result<(), String> {
        let known = match &declared.target {
            Target::Pid(pid) => {
                let process = self.processes.get(pid).ok_or_else(|| {
                    format!("there is no process {pid}; it will be found when there is")
                })?;
                let started = process.stat.started_ticks;
                if *self.meant.entry(*pid).or_insert(started) != started {
                    return Err(format!("process {pid} has ended; its number is another's now"));
                }
                let known = vms.iter().position(|vm| vm.pid == *pid);
                if known.is_none() {
                    let found = self.vm(*pid, Kind::Declared, None, &[], troubles);
                    put(vms, found.ok_or_else(|| format!("process {pid} has ended"))?);
                }
                known
            }
            Target::Cgroup(path) => {
                let path = self.below_mount(path)?;
                let known = vms.iter().position(|vm| vm.cgroup.as_ref() == Some(&path));
                if known.is_none() {
                    let found = self.in_group(&path)?;
                    put(vms, found);
                }
                known
            }
        };
        let place = known.unwrap_or(vms.len() - 1);
        let vm = &mut vms[place];
        vm.name = declared.name.clone();
        vm.origin.named_by = NamedBy::Declared;
        let taps = tap::named(&self.roots, vm.pid, &declared.taps);
        vm.taps.extend(taps.found);
        vm.taps.sort_by_key(|tap| (tap.netns, tap.ifindex));
        vm.taps.dedup();
        match taps.lost.first() {
            Some(lost) => Err(format!("there is no interface `{lost}`")),
            None => Ok(()),
        }
    }

    /// A group's path below the mount point, whichever way it was written.
    fn below_mount(&self, path: &Path) -> Result<PathBuf, String> {
        let root = self.hierarchy.as_ref().map(|hierarchy| hierarchy.root.as_path());
        let root = root.ok_or("no CPU controller of control groups here")?;
        let below = [root, Path::new("/sys/fs/cgroup"), Path::new("/")];
        let below = below.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        Ok(below.components().collect())
    }

    /// The VM that a control group is.
    fn in_group(&mut self, path: &Path) -> Result<Vm, String> {
        let Some(hierarchy) = &self.hierarchy else { return Err(String::new()) };
        let shown = Name::new(path.to_string_lossy());
        let threads = group::threads(hierarchy, path).map_err(|error| match error {
            Unread::Denied => format!("control group {shown}: permission denied; run as root"),
            _ => format!(
                "there is no control group {shown} below {}; it will be found when there is",
                hierarchy.root.display()
            ),
        })?;
        let mut read = Vec::new();
        for (tid, group) in threads {
            let dir = self.roots.proc.join(tid.to_string());
            read.extend(self.thread(tid, &dir).map(|(comm, _)| (tid, comm, Some(group))));
        }
        let tids: Vec<u32> = read.iter().map(|(tid, ..)| *tid).collect();
        let main = tids.iter().find(|tid| self.processes.contains_key(tid));
        // There may be vCPUs of a process only.
        let pid = main.copied().or_else(|| self.process_of(*tids.first()?));
        let pid = pid.ok_or_else(|| format!("there is nobody in control group {shown}"))?;
        let started = self.processes.get(&pid).map(|process| process.stat.started_ticks);
        let started_ticks = started.ok_or_else(|| format!("process {pid} has ended"))?;
        let (threads, _) = with_roles(Kind::Declared, pid, Some(path), &tids, read, Vcpus::Names);
        let groups = group::all(Some(path), &threads);
        let inside = tids.iter().filter(|tid| self.processes.contains_key(tid));
        let taps = inside.filter_map(|pid| tap::of(&self.roots, *pid).ok());
        let taps = taps.flat_map(|taps| taps.found).collect();
        let name = Name::new("");
        let labels = labels::of(self.hierarchy.as_ref(), Some(path));
        let (kind, cgroup) = (Kind::Declared, Some(path.to_path_buf()));
        let (known_by, named_by) = (KnownBy::Declared, NamedBy::Declared);
        let (uid, root_cgroup) = (self.uid(pid), self.is_roots(path));
        let origin = Origin { known_by, named_by, uid, root_cgroup };
        Ok(Vm { name, kind, origin, pid, started_ticks, cgroup, labels, threads, taps, groups })
    }

    /// The process that a thread belongs to: `Tgid` in `proc_pid_status(5)`.
    fn process_of(&self, tid: u32) -> Option<u32> {
        let status =
            file::text(&self.roots.proc.join(tid.to_string()).join("status"), 4096).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
    }
}

/// Adds a VM, and takes its threads from others: a thread is in one only.
fn put(vms: &mut Vec<Vm>, vm: Vm) {
    let own = |tid: u32| vm.threads.binary_search_by_key(&tid, |thread| thread.tid).is_ok();
    vms.retain(|other| !own(other.pid));
    for other in vms.iter_mut() {
        other.threads.retain(|thread| !own(thread.tid));
    }
    vms.push(vm);
}
