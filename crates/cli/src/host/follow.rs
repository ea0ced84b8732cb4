//! What has to follow machines beside their settings: the scheduler small-first, and the taggers of uplinks.

use std::path::Path;

use lowtail_control::desired::{self, Facts, Member, Note};
use lowtail_control::manage::{Refused, Wanted};
use lowtail_control::policy::{Policy, Scheduler};
use lowtail_control::reconcile::{Notes, Round, Taggers, Vcpus};
use lowtail_control::vcpu;
use lowtail_discover::Found;
use lowtail_kernel::Error;
use lowtail_kernel::Roots;

use super::log::{Kind, Log, Told};
use crate::exit::Fail;

/// Machines as they are at each look, and what a policy makes of them.
#[derive(Debug)]
pub(crate) struct Follower<'p> {
    policy: &'p Policy,
    facts: Facts,
    vcpus: Option<Vcpus>,
    /// The kernel has ended the scheduler that there was.
    ended: bool,
    members: Vec<Member>,
    taggers: Taggers,
    found: Found,
    /// What was said of what is wanted, and of what follows machines.
    told: [Told; 2],
    /// Where it is kept for `status`: what became of the scheduler, and what the policy does not get.
    dir: &'p Path,
    notes: Vec<Note>,
    refused: Vec<Refused>,
    saved: Option<Notes>,
}

impl<'p> Follower<'p> {
    pub(crate) fn new(policy: &'p Policy, facts: Facts, dir: &'p Path) -> Self {
        Follower {
            policy,
            facts,
            vcpus: None,
            ended: false,
            members: Vec::new(),
            taggers: Taggers::default(),
            found: Found::default(),
            told: Default::default(),
            dir,
            notes: Vec::new(),
            refused: Vec::new(),
            saved: None,
        }
    }

    /// Has small-first schedule vCPUs. If the kernel refuses that its fair class does, unless the policy insists.
    pub(crate) fn load(&mut self) -> Result<(), Fail> {
        let params = self.policy.small_first;
        match Vcpus::load(&vcpu::Options { params, ..vcpu::Options::default() }, self.dir) {
            Ok(vcpus) => self.vcpus = Some(vcpus),
            Err(error) if self.policy.scheduler == Scheduler::SchedExt => return Err(error.into()),
            Err(Error::Scheduler(why)) => self.facts.small_first = Err(why),
            Err(error) => self.facts.small_first = Err(error.to_string()),
        }
        Ok(())
    }

    /// What is wanted for these machines, or why that is not known.
    ///
    /// `scheduler = "sched-ext"` insists when a process begins. What the kernel has ended later is no reason to take away
    /// anything but what belongs to it alone: the fair class has the vCPUs then, as with `auto`.
    pub(crate) fn want(&mut self, found: &Found, log: &mut Log) -> Result<Wanted, String> {
        let refreshed = self.facts.refresh(&Roots::default(), found.hierarchy.as_ref());
        let trouble = refreshed.err().map(|error| format!("error: facts about this host: {error}"));
        let settings = desired::settings(self.policy, found, &self.facts);
        if let Some(note) = settings.notes.iter().find(|note| note.fatal && !self.ended) {
            return Err(note.to_string());
        }
        self.found = found.clone();
        self.facts.ask_libvirt(self.policy, found);
        self.members = match self.vcpus {
            Some(_) if !self.ended => desired::machines(self.policy, found, &self.facts),
            _ => Vec::new(),
        };
        let notes = settings.notes.iter().map(|note| format!("note: {note}"));
        for line in self.told[0].new_ones(notes.chain(trouble)) {
            log.say(Kind::Note, || line);
        }
        let wanted = settings.wanted();
        self.notes = settings.notes;
        Ok(wanted)
    }

    /// Once settings are in force: taggers are told of machines, and the scheduler takes those that have come and lets those
    /// go that have gone. If the kernel has ended it, that is told, and from the next look on its fair class is given what it can have.
    pub(crate) fn follow(&mut self, round: Option<&Round>, log: &mut Log) {
        let mut troubles = self.taggers.follow(self.policy, &self.found);
        troubles.extend(self.vcpus());
        if let Some(refused) = round.and_then(|round| round.refused.as_ref()) {
            self.refused.clone_from(refused);
        }
        troubles.extend(self.save());
        for trouble in self.told[1].new_ones(troubles) {
            log.say(Kind::Error, || format!("error: {trouble}"));
        }
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
                    self.facts.small_first = Err(format!("the kernel has ended it ({why})"));
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
