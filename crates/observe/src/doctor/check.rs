//! What was found, and what follows.

use serde::Serialize;

/// How good it is; the worst is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Ok,
    /// lowtail does all of its work; something that one should know all the same.
    Note,
    /// Some of the work cannot be done.
    Degraded,
    /// A command cannot work at all.
    Missing,
}

/// A command of lowtail's that needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// `lowtail host vms`.
    Vms,
    /// `lowtail host observe`.
    Observe,
    /// `lowtail host record`.
    Record,
    /// `lowtail host apply`.
    Apply,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name for scripts; it does not change.
    pub id: &'static str,
    /// What it is.
    pub title: &'static str,
    /// How good it is.
    pub state: State,
    /// What was found. May hold names that others have chosen, with what a terminal would obey escaped.
    pub found: String,
    /// What follows from that, where it is not as it should be.
    pub consequence: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// The commands that need it.
    pub needed_for: Vec<Command>,
}

/// Everything that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// In order of subject.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// The worst of all states.
    pub fn worst(&self) -> State {
        self.checks.iter().map(|check| check.state).max().unwrap_or(State::Ok)
    }

    /// Whether the command can work: nothing is missing that it needs.
    pub fn works(&self, command: Command) -> bool {
        let lacks =
            |check: &Check| check.state == State::Missing && check.needed_for.contains(&command);
        !self.checks.iter().any(lacks)
    }
}

impl Check {
    /// As it should be.
    pub(super) fn ok(id: &'static str, title: &'static str, found: impl Into<String>) -> Self {
        let (consequence, remedy) = (None, None);
        let needed_for = Vec::new();
        Check { id, title, state: State::Ok, found: found.into(), consequence, remedy, needed_for }
    }

    /// Who needs it.
    pub(super) fn needed_for(mut self, commands: &[Command]) -> Self {
        self.needed_for = commands.to_vec();
        self
    }

    /// Not as it should be.
    pub(super) fn but(
        mut self,
        state: State,
        consequence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        self.state = state;
        self.consequence = Some(consequence.into());
        self.remedy = Some(remedy.into());
        self
    }
}
