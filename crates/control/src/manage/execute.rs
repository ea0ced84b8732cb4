//! Does steps, one after another.

use std::collections::{BTreeMap, BTreeSet};

use super::step::{Checkpoint, Failed, OnError, Step};
use super::{Key, Knob};

/// What has become of steps.
#[derive(Debug, Default)]
pub(super) struct Executed {
    /// Places that have got what they were to get.
    pub(super) done: BTreeSet<Knob>,
    /// Places that were gone.
    pub(super) gone: BTreeSet<Knob>,
    /// Places that have not, and are as they were as far as the kernel lets them.
    pub(super) failed: Vec<Failed>,
    /// Places that were not tried because of that.
    pub(super) left_out: BTreeSet<Knob>,
    /// What we have put there last, or the kernel has made of that; nothing where it was taken back. What is there otherwise is
    /// somebody else's.
    pub(super) wrote: BTreeMap<Knob, String>,
}

enum Outcome {
    Done,
    Gone,
    /// Why, and what is there of us nevertheless.
    Failed(String, Option<String>),
}

/// Does the steps in this order. Quota and period of a group belong together: if one of both is refused, the other one
/// is put back, so that nobody is left without a limit half way. All parts of an interface belong together, too: an uplink
/// with bands and without a tagger has all packets in one band.
pub(super) fn execute_steps(
    steps: &[Step],
    on_error: OnError,
    report: &mut dyn FnMut(Checkpoint<'_>),
) -> Executed {
    let mut executed = Executed::default();
    for together in steps.chunk_by(are_together) {
        let stopped = on_error == OnError::Stop && !executed.failed.is_empty();
        let has_failed =
            |step: &Step| executed.failed.iter().any(|failed| failed.knob == step.knob);
        if stopped || together.iter().any(has_failed) {
            executed.left_out.extend(together.iter().map(|step| step.knob.clone()));
            continue;
        }
        executed.together(together, report);
    }
    // Both steps of a knob count as the last one.
    let Executed { done, gone, failed, left_out, .. } = &mut executed;
    let bad = |knob: &Knob| failed.iter().any(|failed| failed.knob == *knob);
    left_out.retain(|knob| !bad(knob));
    done.retain(|knob| !bad(knob) && !gone.contains(knob) && !left_out.contains(knob));
    executed
}

impl Executed {
    /// None of them was tried.
    pub(super) fn none(steps: &[Step]) -> Self {
        let left_out = steps.iter().map(|step| step.knob.clone()).collect();
        Executed { left_out, ..Executed::default() }
    }

    fn wrote(&mut self, step: &Step, value: &str) {
        self.wrote.insert(step.knob.clone(), value.to_string());
    }

    fn together(&mut self, steps: &[Step], report: &mut dyn FnMut(Checkpoint<'_>)) {
        for (at, step) in steps.iter().enumerate() {
            report(Checkpoint::Before(step));
            let outcome = step.take();
            report(Checkpoint::After(step));
            match outcome {
                Outcome::Done => {
                    self.wrote(step, &step.to);
                    self.done.insert(step.knob.clone());
                }
                // What belongs to it is gone as well.
                Outcome::Gone => drop(self.gone.insert(step.knob.clone())),
                Outcome::Failed(mut why, made) => {
                    // Of an interface's part half may be there, such as no disciplines at all.
                    let half =
                        made.is_some() && !step.restores && step.knob.is_set_with(&step.knob);
                    if let Some(made) = made {
                        self.wrote(step, &made);
                    }
                    for done in steps[..at + usize::from(half)].iter().rev() {
                        // What the kernel had before it takes again; if not, it is told with the failure.
                        match done.knob.write(&done.now) {
                            Ok(true) => drop(self.wrote.remove(&done.knob)),
                            Ok(false) => {}
                            Err(error) => {
                                why += &format!("; {} cannot be taken back: {error}", done.knob);
                            }
                        }
                    }
                    let (knob, to) = (step.knob.clone(), step.to.clone());
                    self.failed.push(Failed { knob, to, why });
                    self.left_out.extend(steps.iter().map(|step| step.knob.clone()));
                    return;
                }
            }
        }
    }
}

impl Step {
    /// Does it, and looks whether it is done.
    fn take(&self) -> Outcome {
        match self.put() {
            Ok(None) => Outcome::Gone,
            Ok(Some(now)) if self.knob.holds(&self.to, &now) => Outcome::Done,
            Ok(Some(now)) => match self.put() {
                // The kernel makes the same of it each time; whoever writes beside us does not.
                Ok(Some(again)) if again == now => {
                    Outcome::Failed(format!("the kernel has made `{now}` of it"), Some(now))
                }
                Ok(Some(again)) if self.knob.holds(&self.to, &again) => Outcome::Done,
                Ok(Some(_)) => {
                    let why = format!("somebody else writes there, too: `{now}`");
                    Outcome::Failed(why, Some(self.to.clone()))
                }
                Ok(None) => Outcome::Gone,
                Err(why) => self.failed(why),
            },
            Err(why) => self.failed(why),
        }
    }

    /// Writes, and reads what is there then; `None` if the knob is gone.
    fn put(&self) -> Result<Option<String>, String> {
        match self.knob.write(&self.to) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(format!("the kernel does not take it: {error}")),
        }
        self.knob.read().map_err(|error| format!("cannot be read any more: {error}"))
    }

    fn failed(&self, why: String) -> Outcome {
        let now = self.knob.read().ok().flatten();
        // Of a write in several calls a part may be done.
        let ours = now.filter(|now| !self.knob.is_whole() && *now != self.now);
        Outcome::Failed(why, ours)
    }
}

/// Whether both are of one limit in two files, or of one interface. What is restored of an interface is restored as far as
/// the kernel takes it.
fn are_together(one: &Step, other: &Step) -> bool {
    if one.knob.is_set_with(&other.knob) {
        return !one.restores && !other.restores;
    }
    let limit = |knob: &Knob| match knob {
        Knob::Group(group) if matches!(group.key(), Key::CfsQuota | Key::CfsPeriod) => {
            Some(group.beside(Key::CfsQuota))
        }
        _ => None,
    };
    limit(&one.knob).is_some_and(|one| limit(&other.knob) == Some(one))
}
