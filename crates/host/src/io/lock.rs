//! Spin locks around the grant table: who comes gets it in turn, and burns time until then.

use lowtail_engine::{Duration, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Which grant operations exclude one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrantLock {
    /// None.
    #[default]
    None,
    /// All, whoever calls: the calling domain's big lock is dom0's for every back end.
    Global,
    /// Those on the pages of one guest.
    PerDomain,
    /// One lock for each pCPU's readers: no two exclude one another (xen.git eede22972f).
    PerCpu,
}

/// A ticket lock: first come, first served.
#[derive(Debug, Clone, Default)]
pub struct SpinLock {
    free_at: Time,
    held: Duration,
    waited: Duration,
}

impl SpinLock {
    /// Takes the lock at `now` for `hold`. Returns how long it takes until it is given back.
    ///
    /// Whoever holds it is taken to go on working; that its vCPU may lose its pCPU meanwhile,
    /// so that others spin for longer, is left out.
    pub fn take(&mut self, now: Time, hold: Duration) -> Duration {
        let from = self.free_at.max(now);
        self.free_at = from + hold;
        self.held += hold;
        self.waited += from.since(now);
        self.free_at.since(now)
    }

    /// For how long it was held in all.
    pub fn held(&self) -> Duration {
        self.held
    }

    /// For how long others waited in all.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_turn() {
        let us = Duration::from_us;
        let mut lock = SpinLock::default();
        let now = Time::ZERO + us(10);
        assert_eq!(lock.take(now, us(3)), us(3));
        assert_eq!(lock.take(now + us(1), us(3)), us(5));
        assert_eq!(lock.take(now + us(20), us(3)), us(3));
        assert_eq!((lock.held(), lock.waited()), (us(9), us(2)));
    }
}
