//! Does what was planned.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::order::order;
use super::step::{Failed, Moment, OnError, Step};
use super::walk::{Walked, walk};
use super::{Change, Entry, Error, Hold, Ledger, Place, Plan};

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Places that have got another value.
    pub changed: usize,
    /// Places that were gone before they could.
    pub gone: usize,
    /// What could not be done, and is as it was, as far as the kernel takes that.
    pub failed: Vec<Failed>,
    /// What was not tried because of that.
    pub left_out: usize,
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
        let before = ledger.clone();
        let mut next = ledger.clone();
        for step in &steps {
            next.intend(&step.place, &step.now, &step.to, whys.get(&step.place).unwrap_or(&""));
        }
        if !steps.is_empty() {
            next.save(dir)?;
            *ledger = next;
            tell(Moment::Written);
        }
        let walked = match on_error {
            OnError::Stop if !applied.failed.is_empty() => Walked::none(&steps),
            on_error => walk(&steps, on_error, tell),
        };
        applied.changed = walked.done.len();
        applied.gone += walked.gone.len();
        applied.left_out = walked.left_out.len();
        ledger.settle(plan, &before, &steps, &walked.wrote);
        applied.failed.extend(walked.failed);
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

impl Ledger {
    /// What is there counts now, not what was to be. Entries of the places that were tried say what we have put there
    /// (`wrote`), as far as we have put anything; else they are as they were `before`. Those of places that are as before
    /// the first change go. A value that somebody else has put there meanwhile never becomes ours.
    fn settle(
        &mut self,
        plan: &Plan,
        before: &Ledger,
        steps: &[Step],
        wrote: &BTreeMap<Place, String>,
    ) {
        let settled: BTreeMap<&Place, &String> =
            plan.settled.iter().map(|(place, to)| (place, to)).collect();
        let done_with: BTreeSet<&Place> = plan.done_with.iter().collect();
        let tried: BTreeSet<&Place> = steps.iter().map(|step| &step.place).collect();
        let before: BTreeMap<&Place, &Entry> =
            before.entries.iter().map(|entry| (&entry.place, entry)).collect();
        self.entries.retain_mut(|entry| {
            if tried.contains(&entry.place) {
                let known = before.get(&entry.place).copied();
                entry.settle(known, wrote.get(&entry.place))
            } else if let Some(to) = settled.get(&entry.place) {
                entry.is(to)
            } else {
                !done_with.contains(&entry.place)
            }
        });
    }
}

impl Entry {
    /// Whether it is still to be restored, after a step that has put there what `wrote` says. `known` is what it was
    /// before that step.
    fn settle(&mut self, known: Option<&Entry>, wrote: Option<&String>) -> bool {
        let value = match self.place.read() {
            Ok(Some(value)) => value,
            Ok(None) => return false,
            // It stays as it is: all that may be ours is in it.
            Err(_) => return true,
        };
        if self.was == value {
            return false;
        }
        let Some(ours) = wrote else {
            // We have put nothing there. Whatever it is now, it is whose it was.
            let Some(known) = known else { return false };
            self.clone_from(known);
            return true;
        };
        self.is(ours)
    }

    /// Notes that this is ours, and nothing else is. Whether it differs from what was there before.
    fn is(&mut self, value: &str) -> bool {
        self.done = true;
        self.ours = vec![value.to_string()];
        self.was != value
    }
}
