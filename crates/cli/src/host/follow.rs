//! What has to follow machines beside their settings: the scheduler small-first, and the taggers of uplinks.

use std::path::Path;

use lowtail_live::Error;
use lowtail_live::discover::Found;
use lowtail_live::keep::{self, Taggers, Vcpus};
use lowtail_live::manage::Setting;
use lowtail_live::policy::{Policy, Scheduler};
use lowtail_live::vcpu;
use lowtail_live::want::{self, Facts, Member, Note};

use super::plan;
use crate::args::Global;
use crate::exit::Fail;
use crate::out;

/// Machines as they are at each look, and what a policy makes of them.
#[derive(Debug)]
pub(crate) struct Follower<'p> {
    policy: &'p Policy,
    facts: Facts,
    vcpus: Option<Vcpus>,
    members: Vec<Member>,
    taggers: Taggers,
    found: Found,
    /// What was said already.
    told: Vec<String>,
    /// Where it is kept for `status`: what became of the scheduler, and what cannot be had.
    dir: &'p Path,
    notes: Option<Vec<Note>>,
}

impl<'p> Follower<'p> {
    pub(crate) fn new(policy: &'p Policy, facts: Facts, dir: &'p Path) -> Self {
        Follower {
            policy,
            facts,
            vcpus: None,
            members: Vec::new(),
            taggers: Taggers::default(),
            found: Found::default(),
            told: Vec::new(),
            dir,
            notes: None,
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

    /// What is wanted for these machines.
    pub(crate) fn want(&mut self, found: &Found, global: &Global) -> Vec<Setting> {
        let settings = match plan::settings(self.policy, found, &self.facts) {
            Ok(settings) => settings,
            Err(fail) => {
                self.tell(fail.message().to_string(), global);
                return Vec::new();
            }
        };
        self.found = found.clone();
        self.facts.ask_libvirt(self.policy, found);
        self.members = match self.vcpus {
            Some(_) => want::machines(self.policy, found, &self.facts),
            None => Vec::new(),
        };
        for note in &settings.notes {
            self.tell(format!("note: {note}"), global);
        }
        if self.notes.as_ref() != Some(&settings.notes) {
            match keep::save_notes(self.dir, &settings.notes) {
                Ok(()) => self.notes = Some(settings.notes),
                Err(error) => self.tell(format!("error: {}: {error}", self.dir.display()), global),
            }
        }
        settings.settings
    }

    /// Once settings are in force: taggers are told of machines, and the scheduler takes those that have come and lets those
    /// go that have gone. If the kernel has ended it, that is told, and from the next look on its fair class is given what it can have.
    pub(crate) fn follow(&mut self, global: &Global) {
        for trouble in self.taggers.follow(self.policy, &self.found) {
            self.tell(format!("error: {trouble}"), global);
        }
        let Some(vcpus) = &mut self.vcpus else { return };
        let followed =
            vcpus.follow(&self.members).and_then(|troubles| Ok((troubles, vcpus.report()?)));
        match followed {
            Ok((troubles, report)) => {
                troubles
                    .into_iter()
                    .for_each(|trouble| self.tell(format!("error: {trouble}"), global));
                if let Some(why) = report.ended {
                    self.facts.small_first = Err(format!("the kernel has ended it ({why})"));
                    let what = "small-first has ended, the kernel's fair class schedules vCPUs";
                    self.tell(format!("error: {what}: {why}"), global);
                }
            }
            Err(error) => self.tell(format!("error: {error}"), global),
        }
    }

    /// Once.
    fn tell(&mut self, what: String, global: &Global) {
        if !self.told.contains(&what) {
            if !global.quiet {
                out::note(&what);
            }
            self.told.push(what);
        }
    }
}
