//! The judge: round after round, what was measured, and what follows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::figure::{Verdict, latency};
use super::memory::GoalState;
use super::trial::{Outcome, Trial};
use super::watched::{PAUSE_MOST, SAMPLES, Watched};
use super::{Base, Breach, Decision, Id, Kind, Machine};
use lowtail_kernel::{VmEffect, VmSample};

/// What is compared with the time before a change is compared for so long: later, other things have changed.
const PROBATION: Duration = Duration::from_secs(60);
/// Samples after a step of `--canary`.
const STEP: u32 = 3;

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

    /// Whether no goal may be about to break. One that is broken without a trial is not broken by us.
    fn is_calm(&self) -> bool {
        let is_sure = |of: &Watched| of.bad != 1 || matches!(of.verdict, Verdict::Unknown);
        self.watched.values().all(is_sure)
    }

    /// Whether all is judged that there was to judge: who does not stay may go.
    pub fn is_done(&self) -> bool {
        let through = self.canary.as_ref().is_none_or(|canary| {
            canary.stopped || self.order.iter().all(|id| canary.allowed.contains(id))
        });
        let calm = self.is_calm();
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
        let calm = self.is_calm();
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
        if !next.is_empty() {
            self.settled = 0;
        }
        next
    }
}

impl Guard {
    /// Whose goals are broken, and how.
    fn why(&self, trial: &Trial) -> String {
        let of = |(id, breach): (&Id, &Breach)| format!("{}: {breach}", self.name(*id));
        trial.broken.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// The next step of a trial, if it is time for one.
    fn go_on(&mut self, mut trial: Trial, now: Instant, decisions: &mut Vec<Decision>) {
        trial.broken.retain(|id, _| self.watched.contains_key(id));
        trial.rest.retain(|id| self.watched.contains_key(id));
        if trial.broken.is_empty() {
            self.put_back(&trial.reverted, "whose goal was broken has ended", decisions);
            return;
        }
        if !trial.reverted.is_empty() {
            let verdict = |(id, breach): (&Id, &Breach)| {
                let Watched { machine, base, recent, .. } = &self.watched[id];
                machine.judge(base.as_ref(), recent, Some(breach.figure))
            };
            let verdicts: Vec<Verdict> = trial.broken.iter().map(verdict).collect();
            trial.count(&verdicts);
            match trial.outcome() {
                Outcome::Open => {
                    self.trial = Some(trial);
                    return;
                }
                Outcome::Helped => return self.keep(&trial, "", decisions),
                Outcome::Undecided => {
                    let why = "; whether that helps cannot be said: too little happens";
                    return self.keep(&trial, why, decisions);
                }
                Outcome::Vain => {}
            }
        }
        let Some(next) = trial.rest.pop() else { return self.in_vain(&trial, now, decisions) };
        let why = self.why(&trial);
        decisions.push(self.decision(Kind::Revert, next, why));
        trial.reverted.push(next);
        (trial.good, trial.bad, trial.all, trial.pending) = (0, 0, 0, Some(0));
        // Samples from before say nothing of it.
        self.watched.values_mut().for_each(|watched| watched.recent.clear());
        self.trial = Some(trial);
    }

    /// The last one was to blame, alone or with those before, which are tried again.
    fn keep(&mut self, trial: &Trial, besides: &str, decisions: &mut Vec<Decision>) {
        let Some((last, before)) = trial.reverted.split_last() else { return };
        let now = |id: &Id| {
            let p99 = self.watched[id].merged()?.wakes.percentile_us(0.99)?;
            Some(format!("{} now {}", self.name(*id), latency(p99 * 1e3)))
        };
        let now: Vec<String> = trial.broken.keys().filter_map(now).collect();
        let mut why = self.why(trial);
        if !now.is_empty() {
            why += &format!("; without its changes p99 of {}", now.join(", "));
        }
        let reason = why + besides;
        self.held.insert(*last, reason.clone());
        decisions.push(self.decision(Kind::Keep, *last, reason));
        self.put_back(before, "they were not to blame", decisions);
        if let Some(canary) = &mut self.canary
            && !std::mem::replace(&mut canary.stopped, true)
        {
            let reason =
                format!("no other VM gets its changes: those of {} hurt", self.name(*last));
            decisions.push(Decision { kind: Kind::Stop, vm: None, pid: None, reason });
        }
        self.watched.values_mut().for_each(|watched| watched.bad = 0);
    }

    /// It is as bad without all that was changed: the load has changed.
    fn in_vain(&mut self, trial: &Trial, now: Instant, decisions: &mut Vec<Decision>) {
        for (id, breach) in &trial.broken {
            let Some(watched) = self.watched.get_mut(id) else { continue };
            let base = watched.recent_base().unwrap_or_default();
            // If it is worse still with the changes, that is looked at at once.
            if breach.is_none_with(&base) {
                watched.quiet = Some(now + watched.pause);
                watched.pause = (2 * watched.pause).min(PAUSE_MOST);
            }
            // Of too few wake-ups no p99 is known: what was before stays what is compared with.
            if base != Base::default() && (base.p99_ns.is_some() || watched.base.is_none()) {
                watched.base = Some(base);
            }
            watched.bad = 0;
            decisions.push(self.decision(
                Kind::Missed,
                *id,
                format!("{breach}; it is so without the changes, too"),
            ));
        }
        self.put_back(&trial.reverted, "without them it is no better", decisions);
    }

    fn put_back(&mut self, ids: &[Id], why: &str, decisions: &mut Vec<Decision>) {
        let there: BTreeSet<Id> = self.watched.keys().copied().collect();
        for id in ids.iter().filter(|id| there.contains(id)) {
            decisions.push(self.decision(Kind::PutBack, *id, why.to_string()));
        }
    }
}
