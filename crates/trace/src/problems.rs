//! What is wrong with the records of a trace, counted.

use serde::Serialize;

use crate::merge::MergeProblems;

/// How many records were lost, contradict each other or could not be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordProblems {
    /// Records that Xen, or the recorder, says it dropped.
    pub lost: u64,
    /// Losses that became known only after later records had been used.
    pub losses_known_late: u64,
    /// Records out of time order.
    pub late: u64,
    /// Records that contradict what came before.
    pub inconsistent: u64,
    /// Records with fewer words than their event has, skipped.
    pub short: u64,
    /// Records without a time, skipped.
    pub untimed: u64,
}

impl From<MergeProblems> for RecordProblems {
    fn from(problems: MergeProblems) -> Self {
        RecordProblems {
            lost: problems.lost_records,
            losses_known_late: problems.late_losses,
            late: problems.late_records,
            inconsistent: 0,
            short: problems.short_records,
            untimed: problems.untimed_records,
        }
    }
}
