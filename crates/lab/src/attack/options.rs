//! What to search.

/// What to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackOptions {
    /// A scheduler of Xen's or ours, or a kind of them such as `credit2`; all if absent.
    pub scheduler: Option<String>,
    /// A queueing discipline whose uplink to attack instead, or `all` of them.
    pub queue: Option<String>,
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
        let queue = self.queue.as_ref().map(|name| format!(" --queue {name}"));
        let what = scheduler.or(queue).unwrap_or_default();
        format!("lowtail lab attack{what} --seed {} --budget {}", self.seed, self.budget)
    }
}
