//! Does steps, one after another.

use std::collections::BTreeSet;

use super::apply::{Failed, Moment, OnError};
use super::order::Step;
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
}

enum Outcome {
    Done,
    Gone,
    Failed(String),
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
    let Walked { done, gone, failed, left_out } = &mut walked;
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

    fn together(&mut self, steps: &[Step], tell: &mut dyn FnMut(Moment<'_>)) {
        for (at, step) in steps.iter().enumerate() {
            tell(Moment::Before(step));
            let outcome = step.take();
            tell(Moment::After(step));
            match outcome {
                Outcome::Done => drop(self.done.insert(step.place.clone())),
                // What belongs to it is gone as well.
                Outcome::Gone => drop(self.gone.insert(step.place.clone())),
                Outcome::Failed(why) => {
                    let (place, to) = (step.place.clone(), step.to.clone());
                    self.failed.push(Failed { place, to, why });
                    self.left_out.extend(steps.iter().map(|step| step.place.clone()));
                    for done in steps[..at].iter().rev() {
                        // What the kernel had before it takes again; if not, it is told with the failure.
                        let _ = done.place.write(&done.now);
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
        match self.place.write(&self.to) {
            Ok(true) => match self.place.read() {
                Ok(Some(now)) if now == self.to => Outcome::Done,
                Ok(Some(now)) => Outcome::Failed(format!("the kernel has made `{now}` of it")),
                Ok(None) => Outcome::Gone,
                Err(error) => Outcome::Failed(format!("cannot be read any more: {error}")),
            },
            Ok(false) => Outcome::Gone,
            Err(error) => Outcome::Failed(format!("the kernel does not take it: {error}")),
        }
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
