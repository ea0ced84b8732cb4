//! Which change has broken a goal: changes are reverted one VM after the other, the last one first, until the goal is kept
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::figure::Verdict;
use super::{Base, Breach, Decision, Guard, IN_A_ROW, Id, Kind, PAUSE_MOST, SAMPLES, Watched};

/// A goal is broken, and it is being found out by whose changes.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Whose goals are broken, and how.
    broken: BTreeMap<Id, Breach>,
    /// VMs with changes that are in force still, in the order in which those were made.
    rest: Vec<Id>,
    /// Those whose changes were reverted, the last one last.
    reverted: Vec<Id>,
    /// Samples in a row since the last of them, good and bad, and all.
    good: u32,
    bad: u32,
    all: u32,
    /// Rounds since it was decided to revert the last of them, until that is done.
    pending: Option<u32>,
}

/// What has come of reverting.
enum Outcome {
    /// Not known yet.
    Open,
    Helped,
    Vain,
    /// Nobody can say: too little happens.
    Undecided,
}

impl Trial {
    pub(super) fn new(broken: BTreeMap<Id, Breach>, rest: Vec<Id>) -> Self {
        Trial { broken, rest, reverted: Vec::new(), good: 0, bad: 0, all: 0, pending: None }
    }

    pub(super) fn reverted(&self) -> &[Id] {
        &self.reverted
    }

    pub(super) fn has_reverted(&self, id: Id) -> bool {
        self.reverted.contains(&id)
    }

    /// Whether the last revert was not in force in the round that is over. It is done in the next one as a rule; where nothing
    /// was to be done, or somebody else was in between, it is not waited for longer than one more.
    pub(super) fn waits(&mut self, is_new: bool) -> bool {
        match self.pending {
            None => false,
            Some(0) if !is_new => {
                self.pending = Some(1);
                true
            }
            Some(_) => {
                self.pending = None;
                true
            }
        }
    }

    /// Counts a sample in which those whose goals were broken did so.
    fn count(&mut self, verdicts: &[Verdict]) {
        self.all += 1;
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Bad(_))) {
            (self.good, self.bad) = (0, self.bad + 1);
        } else if verdicts.iter().all(|verdict| matches!(verdict, Verdict::Good)) {
            (self.good, self.bad) = (self.good + 1, 0);
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Trial { good: IN_A_ROW.., .. } => Outcome::Helped,
            Trial { bad: IN_A_ROW.., .. } => Outcome::Vain,
            Trial { all, .. } if *all >= SAMPLES as u32 => Outcome::Undecided,
            _ => Outcome::Open,
        }
    }

    fn why(&self, guard: &Guard) -> String {
        let of = |(id, breach): (&Id, &Breach)| format!("{}: {breach}", guard.name(*id));
        self.broken.iter().map(of).collect::<Vec<_>>().join("; ")
    }
}

impl Guard {
    /// The next step of a trial, if it is time for one.
    pub(super) fn go_on(&mut self, mut trial: Trial, now: Instant, decisions: &mut Vec<Decision>) {
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
        decisions.push(self.decision(Kind::Revert, next, trial.why(self)));
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
            Some(format!("{} now {}", self.name(*id), super::latency(p99 * 1e3)))
        };
        let now: Vec<String> = trial.broken.keys().filter_map(now).collect();
        let mut why = trial.why(self);
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
