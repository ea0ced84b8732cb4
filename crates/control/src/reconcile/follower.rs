//! What has to follow VMs beside their settings: the scheduler small-first, and the taggers of uplinks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use lowtail_discover::{Found, Roots, Vm};
use lowtail_kernel::Error;

use super::aside::Going;
use super::reported::Reported;
use super::{Notes, Round, Taggers, Vcpus};
use crate::desired::{self, HostCapabilities, Member, Note};
use crate::guard::Machine;
use crate::manage::{Refused, Wanted};
use crate::policy::{Policy, Scheduler};
use crate::vcpu;

/// VMs as they are at each look, and what a policy makes of them.
#[derive(Debug)]
pub struct Follower<'p> {
    policy: &'p Policy,
    capabilities: HostCapabilities,
    vcpus: Option<Vcpus>,
    /// The kernel has ended the scheduler that there was.
    ended: bool,
    members: Vec<Member>,
    taggers: Taggers,
    found: Found,
    /// Reported of what is desired.
    noted: Reported,
    /// Reported of the scheduler and the taggers.
    failed: Reported,
    /// Where it is kept for `status`: what became of the scheduler, and what the policy does not get.
    dir: &'p Path,
    notes: Vec<Note>,
    refused: Vec<Refused>,
    saved: Option<Notes>,
    /// Who is with the fair class for a while, and why.
    aside: BTreeMap<(u32, u64), Going>,
}

impl<'p> Follower<'p> {
    /// One without a scheduler; `dir` is where `status` reads what became of it.
    pub fn new(policy: &'p Policy, capabilities: HostCapabilities, dir: &'p Path) -> Self {
        Follower {
            policy,
            capabilities,
            vcpus: None,
            ended: false,
            members: Vec::new(),
            taggers: Taggers::default(),
            found: Found::default(),
            noted: Reported::default(),
            failed: Reported::default(),
            dir,
            notes: Vec::new(),
            refused: Vec::new(),
            saved: None,
            aside: BTreeMap::new(),
        }
    }

    /// The VMs as the guard watches them.
    pub fn machines(&self, found: &Found) -> Vec<Machine> {
        desired::machines(self.policy, &found.vms, &self.capabilities)
    }

    /// VMs that are not to be touched from the next look on, each with the reason.
    pub fn hold(&mut self, held: BTreeMap<(u32, u64), String>) {
        self.capabilities.held = held;
    }

    /// Has small-first schedule vCPUs. If the kernel refuses that, its fair class does, unless the policy insists.
    ///
    /// # Errors
    /// If the policy insists on it and the kernel refuses.
    pub fn load(&mut self) -> Result<(), Error> {
        let params = self.policy.small_first;
        match Vcpus::load(&vcpu::Options { params, ..vcpu::Options::default() }, self.dir) {
            Ok(vcpus) => self.vcpus = Some(vcpus),
            Err(error) if self.policy.scheduler == Scheduler::SchedExt => return Err(error),
            Err(Error::Scheduler(why)) => self.capabilities.small_first = Err(why),
            Err(error) => self.capabilities.small_first = Err(error.to_string()),
        }
        Ok(())
    }

    /// The desired state for these VMs, or why that is not known; `note` is given what was not reported before.
    ///
    /// `scheduler = "sched-ext"` insists when a process begins. What the kernel has ended later is no reason to take away
    /// anything but what belongs to it alone: the fair class has the vCPUs then, as with `auto`.
    pub fn resolve(
        &mut self,
        found: &Found,
        note: &mut dyn FnMut(String),
    ) -> Result<Wanted, String> {
        let refreshed = self.capabilities.refresh(&Roots::default(), found.hierarchy.as_ref());
        let trouble = refreshed.err().map(|error| format!("error: facts about this host: {error}"));
        self.capabilities.aside = self.aside.keys().copied().collect();
        let mut settings = desired::settings(self.policy, found, &self.capabilities);
        settings.notes.extend(self.why_aside(found));
        if let Some(note) = settings.notes.iter().find(|note| note.fatal && !self.ended) {
            return Err(note.to_string());
        }
        self.found = found.clone();
        self.capabilities.ask_libvirt(self.policy, found);
        self.members = match self.vcpus {
            Some(_) if !self.ended => desired::members(self.policy, found, &self.capabilities),
            _ => Vec::new(),
        };
        if let Some(vcpus) = &mut self.vcpus {
            vcpus.expect(&self.members);
        }
        let notes = settings.notes.iter().map(|note| format!("note: {note}"));
        self.noted.new_ones(notes.chain(trouble)).into_iter().for_each(note);
        let wanted = settings.wanted();
        self.notes = settings.notes;
        Ok(wanted)
    }

    /// Once settings are in force: returns what went wrong and was not reported before. Taggers are told of VMs, and the scheduler takes those that have come and lets those
    /// go that have gone. If the kernel has ended it, that is told, and from the next look on its fair class is given what it can have.
    pub fn follow(&mut self, round: Option<&Round>) -> Vec<String> {
        let mut troubles = self.taggers.follow(self.policy, &self.found);
        troubles.extend(self.vcpus());
        if let Some(refused) = round.and_then(|round| round.refused.as_ref()) {
            self.refused.clone_from(refused);
        }
        troubles.extend(self.save());
        self.failed.new_ones(troubles)
    }

    /// Whether other VMs than at the last look are to be with the fair class for a while.
    pub fn is_due(&mut self) -> bool {
        let Some(vcpus) = self.vcpus.as_mut().filter(|_| !self.ended) else { return false };
        let now = Instant::now();
        // Whoever cannot say it has ended, which is told elsewhere.
        for going in vcpus.crowded(now).unwrap_or_default() {
            self.aside.insert(going.id, going);
        }
        let there = self.found.vms.iter().map(|vm| (vm.pid, vm.started_ticks)).collect();
        let aside = vcpus.aside(&there, now);
        self.aside.retain(|id, _| aside.contains(id));
        !self.aside.keys().eq(&self.capabilities.aside)
    }

    /// What is said of VMs that are with the fair class for a while.
    fn why_aside(&self, found: &Found) -> Vec<Note> {
        let note = |vm: &Vm| {
            let Going { ratio, pause, .. } = self.aside.get(&(vm.pid, vm.started_ticks))?;
            let why = match ratio {
                Some(ratio) => {
                    let percent = 100.0 * ratio;
                    format!(
                        "ordinary threads had its CPUs for {percent:.0} % of the time in which it wanted them"
                    )
                }
                None => {
                    "it has no other CPUs than VMs that wait behind ordinary threads".to_string()
                }
            };
            let seconds = pause.as_secs_f64();
            let what = format!("the fair class schedules it for {seconds:.0} s: {why}");
            Some(Note { vm: Some(vm.name.clone()), what, fatal: false })
        };
        found.vms.iter().filter_map(note).collect()
    }

    /// What went wrong, in words.
    fn vcpus(&mut self) -> Vec<String> {
        let Some(vcpus) = &mut self.vcpus else { return Vec::new() };
        let mut troubles = match vcpus.follow(&self.members) {
            Ok(troubles) => troubles,
            Err(error) => vec![error.to_string()],
        };
        match vcpus.report() {
            Ok(report) => {
                if let Some(why) = report.ended {
                    self.ended = true;
                    self.capabilities.small_first = Err(format!("the kernel has ended it ({why})"));
                    let what = "small-first has ended, the kernel's fair class schedules vCPUs";
                    // What fails because of that is no trouble of its own.
                    troubles = vec![format!("{what}: {why}")];
                }
            }
            Err(error) => troubles.push(error.to_string()),
        }
        troubles
    }

    /// Keeps for `status` what the policy does not get, if that has changed.
    fn save(&mut self) -> Option<String> {
        let notes = Notes::new(&self.notes, &self.refused);
        if self.saved.as_ref() == Some(&notes) {
            return None;
        }
        match notes.save(self.dir) {
            Ok(()) => {
                self.saved = Some(notes);
                None
            }
            Err(error) => Some(format!("{}: {error}", self.dir.display())),
        }
    }
}
