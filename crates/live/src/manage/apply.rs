//! Does what was planned.

use std::collections::BTreeMap;

use serde::Serialize;

use super::order::{Step, order};
use super::{Change, Error, Hold, Ledger, Place, Plan};

/// Where an apply or revert is: whoever is told so may stop it there, as tests do that kill the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment<'a> {
    /// All inverses are on disk, no step is done.
    Written,
    /// Before this step.
    Before(&'a Step),
    /// After it.
    After(&'a Step),
    /// All steps are done, and the ledger says so.
    Settled,
}

/// What an error in the middle means to the steps behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// They are not done.
    Stop,
    /// They are done.
    GoOn,
}

/// A step that could not be done, or not so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Where.
    pub place: Place,
    /// What was to be there.
    pub to: String,
    /// Why it is not, in words.
    pub why: String,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Places that have got another value.
    pub changed: usize,
    /// Places that were gone before they could.
    pub gone: usize,
    /// What could not be done, and is as it was.
    pub failed: Vec<Failed>,
    /// What was not tried because of that.
    pub left_out: usize,
}

/// What has become of a step.
pub(super) enum Outcome {
    Done,
    Gone,
    Failed(String),
}

impl Hold {
    /// Does what was planned under this hold: first everything is written down, then each step is done and looked at.
    /// `tell` is told of each [`Moment`].
    ///
    /// # Errors
    /// If something cannot be written down, or was changed by somebody else since it was planned. Nothing was changed
    /// then. What the kernel refuses is no error of this kind, but in [`Applied::failed`].
    pub fn apply(
        &mut self,
        plan: &Plan,
        on_error: OnError,
        tell: &mut dyn FnMut(Moment<'_>),
    ) -> Result<Applied, Error> {
        let Hold { dir, ledger, .. } = self;
        if ledger.damaged > 0 {
            return Err(Error::Damaged { path: dir.join("host.ledger"), lines: ledger.damaged });
        }
        let mut applied = Applied::default();
        let mut steps = Vec::new();
        for change in &plan.changes {
            match change.place.read() {
                Ok(Some(now)) if now == change.now => steps.push(change.step()),
                Ok(None) => applied.gone += 1,
                Ok(Some(now)) => {
                    let (place, planned) = (change.place.to_string(), change.now.clone());
                    return Err(Error::Moved { place, planned, now });
                }
                Err(error) => applied.failed.push(change.failed(error.to_string())),
            }
        }
        let steps = order(steps);
        let whys: BTreeMap<&Place, &str> =
            plan.changes.iter().map(|change| (&change.place, change.why.as_str())).collect();
        let mut next = ledger.clone();
        for step in &steps {
            next.intend(&step.place, &step.now, &step.to, whys.get(&step.place).unwrap_or(&""));
        }
        if !steps.is_empty() {
            next.save(dir)?;
            *ledger = next;
            tell(Moment::Written);
        }
        let mut stopped = !applied.failed.is_empty() && on_error == OnError::Stop;
        let mut changed: BTreeMap<&Place, bool> = BTreeMap::new();
        for step in &steps {
            // A step behind one of the same place that has failed would go from where it is not.
            if stopped || changed.get(&step.place) == Some(&false) {
                changed.entry(&step.place).or_insert_with(|| {
                    applied.left_out += 1;
                    false
                });
                continue;
            }
            let outcome = step.take(tell);
            changed.insert(&step.place, matches!(outcome, Outcome::Done));
            match outcome {
                Outcome::Done => {}
                Outcome::Gone => applied.gone += 1,
                Outcome::Failed(why) => {
                    let (place, to) = (step.place.clone(), step.to.clone());
                    applied.failed.push(Failed { place, to, why });
                    stopped = on_error == OnError::Stop;
                }
            }
        }
        applied.changed = changed.values().filter(|done| **done).count();
        ledger.settle(plan, changed.keys().copied());
        // All is on disk that is needed: if there is no room to say that it is done, more is than has to be.
        if ledger.save(dir).is_ok() {
            tell(Moment::Settled);
        }
        Ok(applied)
    }
}

impl Change {
    fn step(&self) -> Step {
        Step { place: self.place.clone(), now: self.now.clone(), to: self.to.clone() }
    }

    fn failed(&self, why: String) -> Failed {
        Failed { place: self.place.clone(), to: self.to.clone(), why }
    }
}

impl Step {
    /// Does it, and looks whether it is done.
    pub(super) fn take(&self, tell: &mut dyn FnMut(Moment<'_>)) -> Outcome {
        tell(Moment::Before(self));
        let outcome = match self.place.write(&self.to) {
            Ok(true) => match self.place.read() {
                Ok(Some(now)) if now == self.to => Outcome::Done,
                Ok(Some(now)) => Outcome::Failed(format!("the kernel has made `{now}` of it")),
                Ok(None) => Outcome::Gone,
                Err(error) => Outcome::Failed(format!("cannot be read any more: {error}")),
            },
            Ok(false) => Outcome::Gone,
            Err(error) => Outcome::Failed(format!("the kernel does not take it: {error}")),
        };
        tell(Moment::After(self));
        outcome
    }
}

impl Ledger {
    /// What is there counts now, not what was to be: entries of `tried` places say what we have put there, those that
    /// are as they were before go.
    fn settle<'a>(&mut self, plan: &Plan, tried: impl Iterator<Item = &'a Place>) {
        let mut now: BTreeMap<&Place, Option<String>> =
            plan.settled.iter().map(|(place, to)| (place, Some(to.clone()))).collect();
        now.extend(plan.done_with.iter().map(|place| (place, None)));
        for place in tried {
            // One that cannot be read stays as it is.
            if let Ok(value) = place.read() {
                now.insert(place, value);
            }
        }
        self.entries.retain_mut(|entry| match now.get(&entry.place) {
            None => true,
            Some(None) => false,
            Some(Some(value)) if *value == entry.was => false,
            Some(Some(value)) => {
                entry.done = true;
                // What the kernel has made of ours is ours as well.
                entry.ours = vec![value.clone()];
                true
            }
        });
    }
}
