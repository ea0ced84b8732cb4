//! Does what was planned.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::execute::{Executed, execute_steps};
use super::order::order;
use super::step::{Checkpoint, Failed, OnError, Step};
use super::{Change, Entry, Error, HostLock, Knob, Ledger, Plan};

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
    #[serde(rename = "skipped")]
    pub left_out: usize,
}

impl HostLock {
    /// Does what was planned under this hold: first everything is written down, then each step is done and looked at.
    /// `report` is told of each [`Checkpoint`].
    ///
    /// # Errors
    /// If something cannot be written down, or was changed by somebody else since it was planned. Nothing was changed
    /// then. What the kernel refuses is no error of this kind, but in [`Applied::failed`].
    pub fn apply(
        &mut self,
        plan: &Plan,
        on_error: OnError,
        report: &mut dyn FnMut(Checkpoint<'_>),
    ) -> Result<Applied, Error> {
        let HostLock { dir, ledger, .. } = self;
        if ledger.damaged > 0 {
            return Err(Error::Damaged { path: dir.join("host.ledger"), lines: ledger.damaged });
        }
        let mut applied = Applied::default();
        let mut steps = Vec::new();
        for change in &plan.changes {
            match change.knob.read() {
                Ok(Some(now)) if now == change.now => steps.push(change.step()),
                Ok(None) => applied.gone += 1,
                Ok(Some(now)) => {
                    let (knob, planned) = (change.knob.to_string(), change.now.clone());
                    return Err(Error::Moved { knob, planned, now });
                }
                Err(error) => applied.failed.push(change.failed(error.to_string())),
            }
        }
        let planned = steps.len();
        let hinders = |failed: &Failed, step: &Step| failed.knob.is_set_with(&step.knob);
        steps.retain(|step| {
            step.restores || !applied.failed.iter().any(|failed| hinders(failed, step))
        });
        applied.left_out = planned - steps.len();
        let steps = order(steps);
        let whys: BTreeMap<&Knob, &str> =
            plan.changes.iter().map(|change| (&change.knob, change.why.as_str())).collect();
        let before = ledger.clone();
        let mut next = ledger.clone();
        for step in &steps {
            next.record_intent(
                &step.knob,
                &step.now,
                &step.to,
                whys.get(&step.knob).unwrap_or(&""),
            );
        }
        if !steps.is_empty() {
            next.save(dir)?;
            *ledger = next;
            report(Checkpoint::Written);
        }
        let executed = match on_error {
            OnError::Stop if !applied.failed.is_empty() => Executed::none(&steps),
            on_error => execute_steps(&steps, on_error, report),
        };
        applied.changed = executed.done.len();
        applied.gone += executed.gone.len();
        applied.left_out += executed.left_out.len();
        ledger.adopt_actual(plan, &before, &steps, &executed.wrote);
        applied.failed.extend(executed.failed);
        // All is on disk that is needed: if there is no room to say that it is done, more is than has to be.
        if ledger.save(dir).is_ok() {
            report(Checkpoint::Settled);
        }
        Ok(applied)
    }
}

impl Change {
    fn step(&self) -> Step {
        let (now, to) = (self.now.clone(), self.to.clone());
        Step { knob: self.knob.clone(), now, to, restores: self.restores }
    }

    fn failed(&self, why: String) -> Failed {
        Failed { knob: self.knob.clone(), to: self.to.clone(), why }
    }
}

impl Ledger {
    /// What is there counts now, not what was to be. Entries of the knobs that were tried say what we have put there
    /// (`wrote`), as far as we have put anything; else they are as they were `before`. Those of knobs that are as before
    /// the first change go. A value that somebody else has put there meanwhile never becomes ours.
    fn adopt_actual(
        &mut self,
        plan: &Plan,
        before: &Ledger,
        steps: &[Step],
        wrote: &BTreeMap<Knob, String>,
    ) {
        let settled: BTreeMap<&Knob, &String> =
            plan.settled.iter().map(|(knob, to)| (knob, to)).collect();
        let to_forget: BTreeSet<&Knob> = plan.to_forget.iter().collect();
        let tried: BTreeSet<&Knob> = steps.iter().map(|step| &step.knob).collect();
        let before: BTreeMap<&Knob, &Entry> =
            before.entries.iter().map(|entry| (&entry.knob, entry)).collect();
        self.entries.retain_mut(|entry| {
            if tried.contains(&entry.knob) {
                let known = before.get(&entry.knob).copied();
                entry.adopt_actual(known, wrote.get(&entry.knob))
            } else if let Some(to) = settled.get(&entry.knob) {
                entry.is(to)
            } else {
                !to_forget.contains(&entry.knob)
            }
        });
    }
}

impl Entry {
    /// Whether it is still to be restored, after a step that has put there what `wrote` says. `known` is what it was
    /// before that step.
    fn adopt_actual(&mut self, known: Option<&Entry>, wrote: Option<&String>) -> bool {
        let value = match self.knob.read() {
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
