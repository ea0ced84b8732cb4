//! A step of an apply or a revert, and what can come of it.

use serde::Serialize;

use super::knob::Knob;

/// One value put in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where.
    pub knob: Knob,
    /// What is there before.
    pub now: String,
    /// What is there after.
    pub to: String,
    /// Whether that is what was there before the first change.
    pub restores: bool,
}

/// Where an apply or revert is: whoever is told so may stop it there, as tests do that kill the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint<'a> {
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
    Continue,
}

/// A step that could not be done, or not so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Where.
    #[serde(rename = "setting")]
    pub knob: Knob,
    /// What was to be there.
    #[serde(rename = "desired")]
    pub to: String,
    /// Why it is not, in words.
    #[serde(rename = "reason")]
    pub why: String,
}
