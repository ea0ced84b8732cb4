//! What the guard has reverted, and how goals are kept: for the next `apply`, and for `status`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::policy::Policy;
use lowtail_kernel::journal;
use lowtail_kernel::process::Process;

const FILE: &str = "host.guard";

/// What is remembered of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// A sum of that policy: with another one all is tried again.
    policy: String,
    /// What was reverted, and is not tried again.
    pub reverted: Vec<Reverted>,
    /// How VMs did when they were looked at last.
    pub goals: Vec<GoalState>,
}

/// A VM whose changes were reverted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reverted {
    /// Its name, as given: data.
    pub vm: String,
    /// Its process.
    pub pid: u32,
    /// When that began, in clock ticks.
    pub started_ticks: u64,
    /// Whether a later VM of that name counts as the same one: if somebody has chosen the name who may.
    #[serde(default)]
    pub by_name: bool,
    /// Why, with figures.
    pub reason: String,
}

/// A VM's goal, and how it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalState {
    /// Its name, as given: data.
    pub vm: String,
    /// Its process.
    pub pid: u32,
    /// The policy's goal for p99 of its wake-up latency.
    pub goal_p99_seconds: Option<f64>,
    /// Beyond this, changes are reverted.
    pub limit_p99_seconds: Option<f64>,
    /// Before the changes.
    pub before_p99_seconds: Option<f64>,
    /// What `plan --predict` has predicted of this policy.
    #[serde(default)]
    pub predicted_p99_seconds: Option<f64>,
    /// Lately.
    pub measured_p99_seconds: Option<f64>,
    /// Whether the goal is kept.
    pub state: State,
    /// Which figure breaks it, if one does.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Whether a goal is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is.
    Kept,
    /// It is not.
    Broken,
    /// It is not, and was not before the changes, or is not because of them.
    Missed,
    /// Too little happens to say.
    Unknown,
    /// The changes of this VM were reverted.
    Reverted,
    /// This VM is not changed yet.
    Waiting,
}

impl State {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            State::Kept => "kept",
            State::Broken => "broken",
            State::Missed => "missed",
            State::Unknown => "unknown",
            State::Reverted => "reverted",
            State::Waiting => "waiting",
        }
    }
}

impl Memory {
    /// Nothing, of this policy.
    pub fn new(policy: &Policy) -> Self {
        Memory { policy: sum(policy), ..Memory::default() }
    }

    /// What is remembered in `dir`, if anything is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(dir: &Path) -> io::Result<Option<Self>> {
        match fs::read(dir.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is remembered in `dir` of this policy: nothing if it was of another one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(policy: &Policy, dir: &Path) -> io::Result<Self> {
        let kept = Self::load(dir)?.filter(|memory| memory.policy == sum(policy));
        Ok(kept.unwrap_or_else(|| Self::new(policy)))
    }

    /// Keeps it in `dir`, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &Path) -> io::Result<()> {
        journal::save(dir, FILE, &serde_json::to_vec(self)?)
    }

    /// Forgets all.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(dir: &Path) -> io::Result<()> {
        journal::forget(dir, FILE)
    }

    /// Nothing is in force any more: what was reverted stays known.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn forget_goals(dir: &Path) -> io::Result<()> {
        match Self::load(dir)? {
            Some(memory) if memory.reverted.is_empty() => Self::forget(dir),
            Some(memory) => Memory { goals: Vec::new(), ..memory }.save(dir),
            None => Ok(()),
        }
    }

    /// Why the changes of this VM are not tried again, if they are not. A VM that was started again is the same one by its
    /// name, if that counts, and as long as the one that was reverted is gone.
    pub fn why_held(&self, machine: &Machine) -> Option<&str> {
        let is = |of: &&Reverted| {
            if (of.pid, of.started_ticks) == machine.id {
                return true;
            }
            let named = of.by_name && machine.trusted && of.vm == machine.name.as_given();
            named && !of.lives()
        };
        self.reverted.iter().find(is).map(|of| of.reason.as_str())
    }

    /// Remembers that this VM's changes were reverted. Whether that is new.
    pub fn remember(&mut self, machine: &Machine, reason: &str) -> bool {
        if self.why_held(machine).is_some() {
            return false;
        }
        self.reverted.push(Reverted {
            vm: machine.name.as_given().to_string(),
            pid: machine.id.0,
            started_ticks: machine.id.1,
            by_name: machine.trusted,
            reason: reason.to_string(),
        });
        true
    }
}

impl Reverted {
    fn lives(&self) -> bool {
        let pid = i32::try_from(self.pid).unwrap_or_default();
        Process { pid, started: self.started_ticks }.lives()
    }
}

/// What tells one policy from another: comments and order of keys do not.
pub(super) fn sum(policy: &Policy) -> String {
    format!("{:08x}", crc32fast::hash(format!("{policy:?}").as_bytes()))
}
