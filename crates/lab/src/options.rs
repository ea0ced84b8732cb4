//! How to run an experiment.

use crate::case::spec::Case;
use crate::network::watch::Watch;

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// In place of the experiment's own seed.
    pub seed: Option<u64>,
    /// In place of the experiment's own number of seeds.
    pub seeds: Option<u16>,
    /// How many cases to run at the same time; 0 counts as 1.
    pub jobs: usize,
    /// The longer form.
    pub full: bool,
    /// How many records of each case's schedule to keep; 0 for none.
    pub record: usize,
    /// Names of the cases to run; all if there are none.
    pub cases: Vec<String>,
    /// What to look at in networks.
    pub watch: Watch,
    /// Whether to keep when each transfer of a list was complete.
    pub completions: bool,
    /// Whether to keep whose bytes were in front of whose packets at the queues of networks.
    pub blame: bool,
}

impl RunOptions {
    /// Whether `case` is to run.
    pub fn chosen(&self, case: &Case) -> bool {
        self.cases.is_empty() || self.cases.contains(&case.name)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seed: None,
            seeds: None,
            jobs: 1,
            full: false,
            record: 0,
            cases: Vec::new(),
            watch: Watch::default(),
            completions: false,
            blame: false,
        }
    }
}
