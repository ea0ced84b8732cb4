//! How long the way is from a wake-up to the switch where nobody else is in the way: an interrupt, out of a sleep of the CPU, through the
//! scheduler and the control groups of who has woken. Measured in the recording itself.

use lowtail_engine::Duration;
use lowtail_host::Way;

/// A longer one is no way any more: somebody was in it.
const WAY_MAX_NS: u64 = 200_000;
/// So many are kept of each thread and kind: the first ones, as ways do not depend on when they are gone.
const SAMPLES_MAX: usize = 512;
/// So many tell what is usual for a thread.
const SAMPLES_MIN: usize = 16;

/// Ways that a thread has gone, or several threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ways {
    to_idle: Vec<u32>,
    to_busy: Vec<u32>,
}

/// Whether a wait is so short that it can be a way.
pub(crate) fn is_way(wait_ns: u64) -> bool {
    wait_ns <= WAY_MAX_NS
}

impl Ways {
    /// The thread begins to run, which has waited so long since it was woken, on a CPU that was idle, or is taken from another thread.
    pub(crate) fn measure(&mut self, wait_ns: u64, was_idle: bool) {
        let samples = if was_idle { &mut self.to_idle } else { &mut self.to_busy };
        if is_way(wait_ns) && samples.len() < SAMPLES_MAX {
            samples.push(wait_ns as u32);
        }
    }

    /// Takes in those of another thread.
    pub(crate) fn add(&mut self, other: &Ways) {
        self.to_idle.extend(&other.to_idle);
        self.to_busy.extend(&other.to_busy);
    }

    /// The usual way; where too few were seen, the one of `all`.
    pub(crate) fn usual(&self, all: Option<Way>) -> Way {
        let enough = |samples: &[u32]| all.is_none() || samples.len() >= SAMPLES_MIN;
        let busy = match all {
            Some(all) if !enough(&self.to_busy) => all.to_busy,
            // Some have waited until the tick: the lower half has not.
            _ if self.to_busy.is_empty() => quantile(&self.to_idle, 0.5),
            _ => quantile(&self.to_busy, 0.4),
        };
        let to_idle = match all {
            Some(all) if !enough(&self.to_idle) => all.to_idle,
            // A host that was never idle does not tell; what is known is nearer than nothing.
            _ if self.to_idle.is_empty() => busy,
            _ => quantile(&self.to_idle, 0.5),
        };
        Way { to_busy: busy, to_self: Some(busy), to_idle }
    }
}

fn quantile(samples: &[u32], q: f64) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = (q * sorted.len() as f64) as usize;
    Duration::from_ns(sorted.get(at).copied().unwrap_or(0).into())
}
