//! Watches the goals of VMs after changes, and says what is to be reverted.
//!
//! A judge without hands: it is given [samples](lowtail_kernel::VmSample) of each round and the VMs that have changes in force, and says which
//! VMs are [not to be touched](Guard::waiting). Who applies the policy leaves those out, so that what they had before is
//! restored through the ledger as everything else is.
//!
//! A goal that is broken in two samples in a row, or clearly in one, begins a *trial*: the changes of one VM after the other
//! are reverted, the last one first, until the goal is kept again. That VM's changes stay reverted and are remembered; those
//! of others that were reverted in vain come back. If nothing helps, all come back: the load has changed, not we.

mod audit;
mod figure;
mod memory;
mod owner;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::Serialize;

pub use audit::{Audit, Line};
use figure::Verdict;
pub use figure::{Base, Breach, Figure, latency};
pub use memory::{GoalState, Memory, Reverted, State};
pub use owner::Owners;
use trial::Trial;

use crate::policy::Goal;
use lowtail_kernel::{Name, VmEffect, VmSample};

/// A VM: its process and when that began, in clock ticks.
pub type Id = (u32, u64);

/// Samples in a row in which a goal is broken, or kept again.
const IN_A_ROW: u32 = 2;
/// What is compared with the time before a change is compared for so long: later, other things have changed.
const PROBATION: Duration = Duration::from_secs(60);
/// Samples that are kept of a VM at most.
const SAMPLES: usize = 10;
/// Samples after a step of `--canary`.
const STEP: u32 = 3;
/// A load that has changed is not tried again for so long; twice as long each time.
const PAUSE: Duration = Duration::from_secs(60);
const PAUSE_MOST: Duration = Duration::from_secs(3600);

/// A VM as the guard knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Which.
    pub id: Id,
    /// What people call it.
    pub name: Name,
    /// What the policy says that it shall keep.
    pub goal: Option<Goal>,
    /// Whether the default goals are its: not of one that the policy gives less on purpose, or whose owner's word does not count.
    pub by_default: bool,
    /// Whether its name counts.
    pub trusted: bool,
}

/// What the guard has decided, for people and logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What.
    #[serde(rename = "decision")]
    pub kind: Kind,
    /// Of which VM, if not of all.
    pub vm: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Why, with figures.
    pub reason: String,
}

/// A kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Its changes are reverted, to see whether that helps.
    Revert,
    /// That has helped: they stay reverted.
    Keep,
    /// That has not: they come back.
    PutBack,
    /// A goal is missed, and not because of a change.
    Missed,
    /// The next VMs get their changes.
    Step,
    /// No other VMs get theirs.
    Stop,
}

/// A VM that is watched.
#[derive(Clone, Debug)]
struct Watched {
    machine: Machine,
    base: Option<Base>,
    /// Since the last change, the newest last.
    recent: Vec<VmSample>,
    verdict: Verdict,
    /// Samples in a row in which a goal was broken.
    bad: u32,
    /// A trial has shown that its load has changed: no other one until then.
    quiet: Option<Instant>,
    pause: Duration,
    /// It was told that its goal is missed.
    told: bool,
}

/// How the guard works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// So many VMs at once get their changes; all at once if `None`.
    pub canary: Option<usize>,
}

/// Step after step.
#[derive(Clone, Debug)]
struct Canary {
    at_once: usize,
    allowed: BTreeSet<Id>,
    stopped: bool,
}

/// Watches goals.
#[derive(Clone, Debug)]
pub struct Guard {
    watched: BTreeMap<Id, Watched>,
    /// VMs in the order in which they were found.
    order: Vec<Id>,
    /// VMs with changes in force, in the order in which those were made, and since when.
    changed: Vec<(Id, Instant)>,
    /// Reverted for good, and why.
    held: BTreeMap<Id, String>,
    trial: Option<Trial>,
    canary: Option<Canary>,
    /// Samples since the last change.
    settled: u32,
}

impl Guard {
    /// Watches nothing yet.
    pub fn new(options: Options) -> Self {
        let canary = |at_once| Canary { at_once, allowed: BTreeSet::new(), stopped: false };
        Guard {
            watched: BTreeMap::new(),
            order: Vec::new(),
            changed: Vec::new(),
            held: BTreeMap::new(),
            trial: None,
            canary: options.canary.map(canary),
            settled: 0,
        }
    }

    /// The VMs that there are, with their goals; `held` are those that were reverted before, and why.
    pub fn machines(&mut self, machines: Vec<Machine>, held: BTreeMap<Id, String>) {
        let there: BTreeSet<Id> = machines.iter().map(|machine| machine.id).collect();
        self.watched.retain(|id, _| there.contains(id));
        self.held.retain(|id, _| there.contains(id));
        self.held.extend(held);
        self.order = machines.iter().map(|machine| machine.id).collect();
        for machine in machines {
            match self.watched.get_mut(&machine.id) {
                Some(watched) => watched.machine = machine,
                None => drop(self.watched.insert(machine.id, Watched::new(machine))),
            }
        }
        if self.canary.as_ref().is_some_and(|canary| canary.allowed.is_empty()) {
            self.next_step();
        }
    }

    /// What VMs did before any change.
    pub fn before(&mut self, samples: &[VmSample]) {
        for sample in samples {
            if let Some(watched) = self.watched.get_mut(&sample.id) {
                watched.base = Some(Base::of(sample));
            }
        }
    }

    /// The same, as another process has kept it, of VMs that were changed already.
    pub fn kept(&mut self, effects: &[VmEffect]) {
        for watched in self.watched.values_mut() {
            let Machine { id, name, .. } = &watched.machine;
            let own = |of: &&VmEffect| of.pid == id.0 && of.name == name.as_given();
            if let Some(effect) = effects.iter().find(own) {
                watched.base = Some(Base::kept(effect));
            }
        }
    }

    /// VMs that are not to be touched now, each with the reason.
    pub fn waiting(&self) -> BTreeMap<Id, String> {
        let mut waiting = self.held.clone();
        for id in self.trial.iter().flat_map(Trial::reverted) {
            waiting.insert(
                *id,
                "the guard has reverted its changes and looks whether that helps".into(),
            );
        }
        if let Some(canary) = &self.canary {
            let why = match canary.stopped {
                true => "its turn does not come: the guard has reverted a VM before it",
                false => "its turn comes later",
            };
            for id in self.order.iter().filter(|id| !canary.allowed.contains(id)) {
                waiting.entry(*id).or_insert_with(|| why.to_string());
            }
        }
        waiting
    }

    /// A round is over: `in_force` are the VMs with changes, in the order in which those were made, `touched` says whether
    /// something was changed in this round, and `samples` are from the end of the round before to the end of this one.
    pub fn round(
        &mut self,
        in_force: &[Id],
        touched: bool,
        samples: Vec<VmSample>,
        now: Instant,
    ) -> Vec<Decision> {
        let same = self.changed.iter().map(|(id, _)| id).eq(in_force);
        let is_new = touched || !same;
        if self.trial.as_mut().is_some_and(|trial| trial.waits(is_new)) {
            // These samples are from before what is to be judged.
            self.change(in_force, now, is_new);
            self.watched.values_mut().for_each(|watched| watched.recent.clear());
            return Vec::new();
        }
        for sample in samples {
            if let Some(watched) = self.watched.get_mut(&sample.id) {
                watched.push(sample);
            }
        }
        self.settled += 1;
        self.watched.values_mut().for_each(Watched::judge);
        let mut decisions = Vec::new();
        // Nothing is to blame before the first change.
        if !self.changed.is_empty() || self.trial.is_some() || same {
            match self.trial.take() {
                Some(trial) => self.go_on(trial, now, &mut decisions),
                None => self.look(now, &mut decisions),
            }
        }
        self.change(in_force, now, is_new);
        self.step(&mut decisions);
        decisions
    }

    /// Takes note of what is in force now. Samples up to here are from before, if that is new.
    fn change(&mut self, in_force: &[Id], now: Instant, is_new: bool) {
        if !is_new {
            return;
        }
        let is_quiet = self.trial.is_none() && !self.is_on_probation(now);
        let is_first = self.changed.is_empty();
        for watched in self.watched.values_mut() {
            // What was measured lately is what is compared with, unless a change is being judged.
            if is_quiet && watched.recent.len() >= STEP as usize {
                watched.base = watched.recent_base();
            }
            watched.recent.clear();
            if is_first {
                (watched.bad, watched.verdict) = (0, Verdict::Unknown);
            }
        }
        let before: BTreeMap<Id, Instant> = self.changed.iter().copied().collect();
        let since = |id: &Id| (*id, before.get(id).copied().unwrap_or(now));
        self.changed = in_force.iter().map(since).collect();
        self.settled = 0;
    }

    fn is_on_probation(&self, now: Instant) -> bool {
        self.changed.iter().any(|(_, since)| now < *since + PROBATION)
    }

    /// Begins a trial if a goal is broken.
    fn look(&mut self, now: Instant, decisions: &mut Vec<Decision>) {
        let mut broken = BTreeMap::new();
        for (id, watched) in &mut self.watched {
            let Some(breach) = watched.broken() else {
                watched.told &= !matches!(watched.verdict, Verdict::Good);
                continue;
            };
            if watched.quiet.is_none_or(|until| now >= until) {
                broken.insert(*id, breach);
            }
        }
        let is_new = |since: Instant| now < since + PROBATION;
        // What is compared with the time before a change says nothing of older changes.
        let only_new = broken.values().all(|breach| breach.relative);
        let candidates = self.changed.iter().filter(|(_, since)| is_new(*since) || !only_new);
        let candidates: Vec<Id> = candidates.map(|(id, _)| *id).collect();
        if broken.is_empty() {
            return;
        }
        if candidates.is_empty() {
            for (id, breach) in broken.into_iter().filter(|(_, breach)| !breach.relative) {
                self.tell_missed(id, &breach, decisions);
            }
            return;
        }
        self.go_on(Trial::new(broken, candidates), now, decisions);
    }

    fn tell_missed(&mut self, id: Id, breach: &Breach, decisions: &mut Vec<Decision>) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        if !std::mem::replace(&mut watched.told, true) {
            let reason = format!("{breach}, and no change of this policy is to blame");
            decisions.push(self.decision(Kind::Missed, id, reason));
        }
    }

    fn decision(&self, kind: Kind, id: Id, reason: String) -> Decision {
        let vm = self.watched.get(&id).map(|of| of.machine.name.as_given().to_string());
        Decision { kind, vm, pid: Some(id.0), reason }
    }

    /// What people call it.
    fn name(&self, id: Id) -> String {
        let name = self.watched.get(&id).map(|watched| watched.machine.name.to_string());
        name.unwrap_or_else(|| format!("process {}", id.0))
    }

    /// Whether all is judged that there was to judge: who does not stay may go.
    pub fn is_done(&self) -> bool {
        let through = self.canary.as_ref().is_none_or(|canary| {
            canary.stopped || self.order.iter().all(|id| canary.allowed.contains(id))
        });
        let calm = self.watched.values().all(|watched| watched.bad == 0);
        through && calm && self.trial.is_none() && self.settled >= SAMPLES as u32
    }

    /// The VMs that were reverted, and why: to be remembered.
    pub fn reverted(&self) -> impl Iterator<Item = (&Machine, &str)> {
        let of = |(id, why): (&Id, &String)| (*id, why.clone());
        let all: BTreeMap<Id, String> = self.held.iter().map(of).collect();
        let watched = all.into_keys().filter_map(|id| self.watched.get(&id));
        watched.map(|of| (&of.machine, self.held[&of.machine.id].as_str()))
    }

    /// How VMs with a goal do.
    pub fn states(&self) -> Vec<GoalState> {
        let waiting = self.waiting();
        let watched = self.order.iter().filter_map(|id| self.watched.get(id));
        let has_goal = |of: &&Watched| of.has_goal() || waiting.contains_key(&of.machine.id);
        watched
            .filter(has_goal)
            .map(|of| {
                of.state(self.is_reverted(of.machine.id), waiting.contains_key(&of.machine.id))
            })
            .collect()
    }

    fn is_reverted(&self, id: Id) -> bool {
        self.held.contains_key(&id)
            || self.trial.as_ref().is_some_and(|trial| trial.has_reverted(id))
    }

    /// The next VMs of `--canary`, if those before keep their goals.
    fn step(&mut self, decisions: &mut Vec<Decision>) {
        let calm = self.watched.values().all(|watched| watched.bad == 0);
        let Some(canary) = &self.canary else { return };
        if canary.stopped || self.trial.is_some() || !calm || self.settled < STEP {
            return;
        }
        let names: Vec<String> = self.next_step().into_iter().map(|id| self.name(id)).collect();
        if !names.is_empty() {
            let reason = format!("those before keep their goals; next: {}", names.join(", "));
            decisions.push(Decision { kind: Kind::Step, vm: None, pid: None, reason });
        }
    }

    fn next_step(&mut self) -> Vec<Id> {
        let Some(canary) = &mut self.canary else { return Vec::new() };
        let held = &self.held;
        let rest = self.order.iter().filter(|id| !canary.allowed.contains(id));
        let next: Vec<Id> =
            rest.filter(|id| !held.contains_key(id)).take(canary.at_once).copied().collect();
        canary.allowed.extend(&next);
        // Those that were reverted are nobody's turn.
        canary.allowed.extend(held.keys());
        self.settled = 0;
        next
    }
}

impl Watched {
    fn new(machine: Machine) -> Self {
        Watched {
            machine,
            base: None,
            recent: Vec::new(),
            verdict: Verdict::Unknown,
            bad: 0,
            quiet: None,
            pause: PAUSE,
            told: false,
        }
    }

    fn push(&mut self, sample: VmSample) {
        if self.recent.len() == SAMPLES {
            self.recent.remove(0);
        }
        self.recent.push(sample);
    }

    fn judge(&mut self) {
        self.verdict = self.machine.judge(self.base.as_ref(), &self.recent, None);
        match self.verdict {
            Verdict::Unknown => {}
            Verdict::Good => self.bad = 0,
            Verdict::Bad(_) => self.bad += 1,
        }
    }

    /// Its goal is broken, and not by chance.
    fn broken(&self) -> Option<Breach> {
        match &self.verdict {
            Verdict::Bad(breach) if self.bad >= IN_A_ROW || breach.severe => Some(breach.clone()),
            _ => None,
        }
    }

    fn merged(&self) -> Option<VmSample> {
        let (first, rest) = self.recent.split_first()?;
        let mut all = first.clone();
        rest.iter().for_each(|sample| all.merge(sample));
        Some(all)
    }

    fn recent_base(&self) -> Option<Base> {
        self.merged().map(|sample| Base::of(&sample))
    }

    /// Whether there is something that it can miss.
    fn has_goal(&self) -> bool {
        let cpus = || self.base.as_ref().is_some_and(Base::has_cpus) && self.machine.by_default;
        self.machine.goal.is_some()
            || self.machine.p99_limit(self.base.as_ref()).is_some()
            || cpus()
    }

    fn state(&self, reverted: bool, waits: bool) -> GoalState {
        let goal = self.machine.goal.unwrap_or_default();
        let seconds = |ns: f64| ns / 1e9;
        let merged = self.merged();
        let p99 = merged.as_ref().and_then(|sample| sample.wakes.percentile_us(0.99));
        let measured_ns = p99.map(|us| us * 1e3);
        let limit = self.machine.p99_limit(self.base.as_ref());
        let is_missed =
            goal.p99.zip(measured_ns).is_some_and(|(goal, ns)| ns > goal.as_ns() as f64);
        let state = match (&self.verdict, reverted) {
            (_, true) => State::Reverted,
            _ if waits => State::Waiting,
            (Verdict::Bad(_), _) if self.bad >= IN_A_ROW => State::Broken,
            _ if is_missed => State::Missed,
            (Verdict::Unknown, _) => State::Unknown,
            _ => State::Kept,
        };
        GoalState {
            vm: self.machine.name.as_given().to_string(),
            pid: self.machine.id.0,
            goal_p99_seconds: goal.p99.map(|span| seconds(span.as_ns() as f64)),
            limit_p99_seconds: limit.map(|limit| seconds(limit.ns)),
            before_p99_seconds: self.base.as_ref().and_then(|base| base.p99_ns).map(seconds),
            predicted_p99_seconds: None,
            measured_p99_seconds: measured_ns.map(seconds),
            state,
            reason: match &self.verdict {
                Verdict::Bad(breach) if state == State::Broken => Some(breach.to_string()),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests;
