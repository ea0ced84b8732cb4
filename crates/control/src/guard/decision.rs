//! What the guard has decided.

use serde::Serialize;

/// What the guard has decided, for people and logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What.
    #[serde(rename = "decision")]
    pub kind: Kind,
    /// Of which VM, if not of all.
    pub vm: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Why, with figures.
    pub reason: String,
}

/// A kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Its changes are reverted, to see whether that helps.
    Revert,
    /// That has helped: they stay reverted.
    Keep,
    /// That has not: they come back.
    PutBack,
    /// A goal is missed, and not because of a change.
    Missed,
    /// The next VMs get their changes.
    Step,
    /// No other VMs get theirs.
    Stop,
}

impl Kind {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Revert => "revert",
            Kind::Keep => "keep",
            Kind::PutBack => "put-back",
            Kind::Missed => "missed",
            Kind::Step => "step",
            Kind::Stop => "stop",
        }
    }
}
