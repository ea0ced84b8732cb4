//! What to search.

/// What to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackOptions {
    /// A scheduler of Xen's or ours, or a kind of them such as `credit2`; all if absent.
    pub scheduler: Option<String>,
    /// What all random choices follow from.
    pub seed: u64,
    /// How many hosts to try.
    pub budget: u32,
    /// How many to run at the same time; 0 counts as 1.
    pub jobs: usize,
}

impl AttackOptions {
    /// The command that searches the same again.
    pub fn command(&self) -> String {
        let scheduler = self.scheduler.as_ref().map(|name| format!(" --scheduler {name}"));
        let (scheduler, seed, budget) = (scheduler.unwrap_or_default(), self.seed, self.budget);
        format!("lowtail lab attack{scheduler} --seed {seed} --budget {budget}")
    }
}
