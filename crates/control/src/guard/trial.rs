//! Which change has broken a goal: changes are reverted one VM after the other, the last one first, until the goal is kept
//! again.

use std::collections::BTreeMap;

use super::figure::Verdict;
use super::watched::{IN_A_ROW, SAMPLES};
use super::{Breach, Id};

/// A goal is broken, and it is being found out by whose changes.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Whose goals are broken, and how.
    pub(super) broken: BTreeMap<Id, Breach>,
    /// VMs with changes that are in force still, in the order in which those were made.
    pub(super) rest: Vec<Id>,
    /// Those whose changes were reverted, the last one last.
    pub(super) reverted: Vec<Id>,
    /// Samples in a row since the last of them, good and bad, and all.
    pub(super) good: u32,
    pub(super) bad: u32,
    pub(super) all: u32,
    /// Rounds since it was decided to revert the last of them, until that is done.
    pub(super) pending: Option<u32>,
}

/// What has come of reverting.
pub(super) enum Outcome {
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
    pub(super) fn count(&mut self, verdicts: &[Verdict]) {
        self.all += 1;
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Bad(_))) {
            (self.good, self.bad) = (0, self.bad + 1);
        } else if verdicts.iter().all(|verdict| matches!(verdict, Verdict::Good)) {
            (self.good, self.bad) = (self.good + 1, 0);
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Trial { good: IN_A_ROW.., .. } => Outcome::Helped,
            Trial { bad: IN_A_ROW.., .. } => Outcome::Vain,
            Trial { all, .. } if *all >= SAMPLES as u32 => Outcome::Undecided,
            _ => Outcome::Open,
        }
    }
}
