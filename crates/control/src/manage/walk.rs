//! Does steps, one after another.

use std::collections::{BTreeMap, BTreeSet};

use super::step::{Failed, Moment, OnError, Step};
use super::{Key, Place};

/// What has become of steps.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Places that have got what they were to get.
    pub(super) done: BTreeSet<Place>,
    /// Places that were gone.
    pub(super) gone: BTreeSet<Place>,
    /// Places that have not, and are as they were as far as the kernel lets them.
    pub(super) failed: Vec<Failed>,
    /// Places that were not tried because of that.
    pub(super) left_out: BTreeSet<Place>,
    /// What we have put there last, or the kernel has made of that; nothing where it was taken back. What is there otherwise is
    /// somebody else's.
    pub(super) wrote: BTreeMap<Place, String>,
}

enum Outcome {
    Done,
    Gone,
    /// Why, and what is there of us nevertheless.
    Failed(String, Option<String>),
}

/// Does the steps in this order. Quota and period of a group belong together: if one of both is refused, the other one
/// is put back, so that nobody is left without a limit half way.
pub(super) fn walk(steps: &[Step], on_error: OnError, tell: &mut dyn FnMut(Moment<'_>)) -> Walked {
    let mut walked = Walked::default();
    for together in steps.chunk_by(|one, other| are_together(&one.place, &other.place)) {
        let stopped = on_error == OnError::Stop && !walked.failed.is_empty();
        let has_failed =
            |step: &Step| walked.failed.iter().any(|failed| failed.place == step.place);
        if stopped || together.iter().any(has_failed) {
            walked.left_out.extend(together.iter().map(|step| step.place.clone()));
            continue;
        }
        walked.together(together, tell);
    }
    // Both steps of a place count as the last one.
    let Walked { done, gone, failed, left_out, .. } = &mut walked;
    let bad = |place: &Place| failed.iter().any(|failed| failed.place == *place);
    left_out.retain(|place| !bad(place));
    done.retain(|place| !bad(place) && !gone.contains(place) && !left_out.contains(place));
    walked
}

impl Walked {
    /// None of them was tried.
    pub(super) fn none(steps: &[Step]) -> Self {
        let left_out = steps.iter().map(|step| step.place.clone()).collect();
        Walked { left_out, ..Walked::default() }
    }

    fn wrote(&mut self, step: &Step, value: &str) {
        self.wrote.insert(step.place.clone(), value.to_string());
    }

    fn together(&mut self, steps: &[Step], tell: &mut dyn FnMut(Moment<'_>)) {
        for (at, step) in steps.iter().enumerate() {
            tell(Moment::Before(step));
            let outcome = step.take();
            tell(Moment::After(step));
            match outcome {
                Outcome::Done => {
                    self.wrote(step, &step.to);
                    self.done.insert(step.place.clone());
                }
                // What belongs to it is gone as well.
                Outcome::Gone => drop(self.gone.insert(step.place.clone())),
                Outcome::Failed(why, made) => {
                    if let Some(made) = made {
                        self.wrote(step, &made);
                    }
                    let (place, to) = (step.place.clone(), step.to.clone());
                    self.failed.push(Failed { place, to, why });
                    self.left_out.extend(steps.iter().map(|step| step.place.clone()));
                    for done in steps[..at].iter().rev() {
                        // What the kernel had before it takes again; if not, it is told with the failure.
                        if matches!(done.place.write(&done.now), Ok(true)) {
                            self.wrote.remove(&done.place);
                        }
                    }
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
            Ok(Some(now)) if self.place.holds(&self.to, &now) => Outcome::Done,
            Ok(Some(now)) => match self.put() {
                // The kernel makes the same of it each time; whoever writes beside us does not.
                Ok(Some(again)) if again == now => {
                    Outcome::Failed(format!("the kernel has made `{now}` of it"), Some(now))
                }
                Ok(Some(again)) if self.place.holds(&self.to, &again) => Outcome::Done,
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

    /// Writes, and reads what is there then; `None` if the place is gone.
    fn put(&self) -> Result<Option<String>, String> {
        match self.place.write(&self.to) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(format!("the kernel does not take it: {error}")),
        }
        self.place.read().map_err(|error| format!("cannot be read any more: {error}"))
    }

    fn failed(&self, why: String) -> Outcome {
        let now = self.place.read().ok().flatten();
        // Of a write in several calls a part may be done.
        let ours = now.filter(|now| !self.place.is_whole() && *now != self.now);
        Outcome::Failed(why, ours)
    }
}

/// Whether both are of one limit in two files.
fn are_together(one: &Place, other: &Place) -> bool {
    let limit = |place: &Place| match place {
        Place::Group(group) if matches!(group.key(), Key::CfsQuota | Key::CfsPeriod) => {
            Some(group.beside(Key::CfsQuota))
        }
        _ => None,
    };
    limit(one).is_some_and(|one| limit(other) == Some(one))
}
