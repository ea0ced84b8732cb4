//! The scheduler small-first in the kernel, following VMs that come and go.
//!
//! It lives as long as this value: when the process ends, however it does, the kernel's scheduler has all threads back.
//! What became of it is in a file, for `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::ahead::Ahead;
use super::aside::{Aside, Going};
use crate::desired::Member;
use crate::vcpu::{self, Options, Scheduler, State, Vm, VmId};
use lowtail_kernel::error::Error;
use lowtail_kernel::journal;
use lowtail_kernel::process::Process;
use lowtail_kernel::thread::cpus;
use nix::unistd::Pid;

const FILE: &str = "host.scheduler";

/// Keeps VMs in the scheduler.
#[derive(Debug)]
pub struct Vcpus {
    scheduler: Scheduler,
    dir: PathBuf,
    machines: BTreeMap<(u32, u64), Known>,
    told: Option<Report>,
    aside: Aside,
    /// Until the scheduler has ended: fields go in their order.
    _ahead: Ahead,
}

/// A VM that the scheduler has.
#[derive(Debug)]
struct Known {
    vm: VmId,
    tids: BTreeSet<u32>,
}

/// What became of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Whose it is: a process and when that began, in clock ticks.
    pub pid: i32,
    /// When that began.
    pub started_ticks: u64,
    /// VMs that it has.
    #[serde(rename = "vms")]
    pub machines: usize,
    /// Why the kernel has ended it, if it has.
    pub ended: Option<String>,
}

/// Whether small-first has the vCPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InForce {
    /// So many VMs are scheduled by this process' programs.
    #[serde(rename = "running")]
    Yes {
        /// The process.
        pid: i32,
        /// Its VMs.
        #[serde(rename = "vms")]
        machines: usize,
    },
    /// The kernel has ended it, for this reason, and schedules by itself.
    Ended(String),
    /// Who had loaded it is gone, and it with that.
    Gone,
}

impl Vcpus {
    /// Loads the scheduler; it has nobody yet. `dir` is where its report goes.
    ///
    /// # Errors
    /// As [`Scheduler::load`], or if the report cannot be written.
    pub fn load(options: &Options, dir: &Path) -> Result<Self, Error> {
        let scheduler = Scheduler::load(options)?;
        let (dir, machines) = (dir.to_path_buf(), BTreeMap::new());
        let ahead = Ahead::new();
        let mut vcpus =
            Vcpus { scheduler, dir, machines, told: None, aside: Aside::default(), _ahead: ahead };
        vcpus.report()?;
        Ok(vcpus)
    }

    /// Tells the scheduler of VMs whose threads are about to get the class, so that a VM's weight and limit hold from the first moment on.
    /// What cannot be told is no trouble: they are taken as they come.
    pub(super) fn expect(&mut self, members: &[Member]) {
        for Member { id, machine } in members {
            let vm = match self.machines.get(id) {
                Some(known) => known.vm,
                None => {
                    let nobody = Vm { threads: Vec::new(), ..machine.clone() };
                    let Ok(vm) = self.scheduler.add(&nobody) else { continue };
                    self.machines.insert(*id, Known { vm, tids: BTreeSet::new() });
                    vm
                }
            };
            let _ = self.scheduler.expect_threads(vm, &machine.threads);
        }
    }

    /// Adds VMs and threads that are new, and lets those go that are no longer there. Only threads are taken that have the
    /// class already: whoever gave it to them has written down what they had. What the kernel refuses is told, and tried
    /// again the next time.
    ///
    /// # Errors
    /// If the report cannot be written, or the kernel does not say whether the scheduler is there.
    pub fn follow(&mut self, members: &[Member]) -> Result<Vec<String>, Error> {
        let mut troubles = Vec::new();
        let there: BTreeSet<(u32, u64)> = members.iter().map(|member| member.id).collect();
        let gone: Vec<_> = self.machines.keys().filter(|id| !there.contains(id)).copied().collect();
        for id in gone {
            let Some(known) = self.machines.get(&id) else { continue };
            match self.scheduler.remove(known.vm) {
                Ok(()) => drop(self.machines.remove(&id)),
                // It has its number, and is tried again the next time.
                Err(error) => troubles.push(error.to_string()),
            }
        }
        for Member { id, machine } in members {
            let mut machine = machine.clone();
            machine.threads.retain(|thread| vcpu::has_class(thread.tid));
            troubles.extend(self.one(*id, &machine).err().map(|error| error.to_string()));
        }
        self.report()?;
        Ok(troubles)
    }

    fn one(&mut self, id: (u32, u64), machine: &Vm) -> Result<(), Error> {
        let tids = || machine.threads.iter().map(|thread| thread.tid).collect();
        let Some(known) = self.machines.get_mut(&id) else {
            let vm = self.scheduler.add(machine)?;
            self.machines.insert(id, Known { vm, tids: tids() });
            return Ok(());
        };
        self.scheduler.set_weight(known.vm, machine.weight)?;
        self.scheduler.set_cap(known.vm, machine.cap)?;
        let now: BTreeSet<u32> = tids();
        let ended: Vec<u32> = known.tids.difference(&now).copied().collect();
        self.scheduler.remove_threads(known.vm, &ended)?;
        self.scheduler.add_threads(known.vm, &machine.threads)?;
        known.tids = now;
        Ok(())
    }

    /// VMs that have waited behind ordinary threads for too long: the fair class is to have them for a while.
    ///
    /// # Errors
    /// If the scheduler does not say what its VMs had.
    pub(super) fn crowded(&mut self, now: Instant) -> Result<Vec<Going>, Error> {
        let stats = |(id, known): (&(u32, u64), &Known)| Ok((*id, self.scheduler.stats(known.vm)?));
        let vms: Vec<_> = self.machines.iter().map(stats).collect::<Result<_, Error>>()?;
        let tids = |id: (u32, u64)| self.machines.get(&id).into_iter().flat_map(|of| &of.tids);
        // Who has ended meanwhile uses none.
        let cpus_of = |&tid: &u32| cpus(Pid::from_raw(tid as i32)).unwrap_or_default();
        let cpus = |id| tids(id).flat_map(cpus_of).collect();
        Ok(self.aside.look(&vms, cpus, now))
    }

    /// Those of the VMs that are `there` that the fair class has for now.
    pub(super) fn aside(
        &mut self,
        there: &BTreeSet<(u32, u64)>,
        now: Instant,
    ) -> BTreeSet<(u32, u64)> {
        self.aside.at(there, now)
    }

    /// Whether the kernel still has it; written down for [`in_force`] if that has changed.
    ///
    /// # Errors
    /// If the report cannot be written, or the kernel does not say.
    pub fn report(&mut self) -> Result<Report, Error> {
        let failed = |error| Error::file("cannot write", &self.dir, error);
        let Process { pid, started } = Process::own().map_err(failed)?;
        let ended = match self.scheduler.state()? {
            State::Enabled => None,
            State::Ended { reason, message } => {
                Some(format!("{reason} {message}").trim().to_string())
            }
        };
        let machines = self.machines.len();
        let report = Report { pid, started_ticks: started, machines, ended };
        if self.told.as_ref() != Some(&report) {
            save(&self.dir, &report).map_err(failed)?;
            self.told = Some(report.clone());
        }
        Ok(report)
    }
}

impl Drop for Vcpus {
    fn drop(&mut self) {
        // Whoever reads it finds that the process is gone, if it stays.
        let _ = forget_scheduler(&self.dir);
    }
}

fn save(dir: &Path, report: &Report) -> io::Result<()> {
    journal::save(dir, FILE, &serde_json::to_vec(report)?)
}

/// Whether small-first has vCPUs on this host, by the report in `dir`; `None` if nobody has ever loaded it, or has ended
/// as he should.
///
/// # Errors
/// If the report cannot be read.
pub fn in_force(dir: &Path) -> io::Result<Option<InForce>> {
    let bytes = match fs::read(dir.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Report { pid, started_ticks, machines, ended } = serde_json::from_slice(&bytes)?;
    let lives = Process { pid, started: started_ticks }.lives();
    Ok(Some(match ended {
        _ if !lives => InForce::Gone,
        Some(why) => InForce::Ended(why),
        None => InForce::Yes { pid, machines },
    }))
}

/// Forgets in `dir` what became of a scheduler whose process is gone: who holds the host, and has none of his own, knows
/// that it is.
///
/// # Errors
/// If it cannot be removed.
pub fn forget_scheduler(dir: &Path) -> io::Result<()> {
    journal::forget(dir, FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_true_as_long_as_its_process_lives() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(in_force(dir.path()).expect("nothing to read"), None);
        let Process { pid, started } = Process::own().expect("there is a /proc");
        let own = Report { pid, started_ticks: started, machines: 3, ended: None };
        let read = |report: &Report| {
            save(dir.path(), report).expect("written");
            in_force(dir.path()).expect("read").expect("there is one")
        };
        assert_eq!(read(&own), InForce::Yes { pid, machines: 3 });
        let ended = Report { ended: Some("stall".into()), ..own.clone() };
        assert_eq!(read(&ended), InForce::Ended("stall".into()));
        // A later process of that number.
        assert_eq!(read(&Report { started_ticks: started + 1, ..own }), InForce::Gone);
        forget_scheduler(dir.path()).expect("removed");
        forget_scheduler(dir.path()).expect("nothing to remove");
        assert_eq!(in_force(dir.path()).expect("nothing to read"), None);
    }
}
