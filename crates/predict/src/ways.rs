//! How long the way is from a wake-up to the switch where nobody else is in the way: an interrupt, out of a sleep of the CPU, through the
//! scheduler. Measured in the recording itself.

/// A longer one is no way any more: somebody was in it.
const WAY_MAX_NS: u64 = 200_000;
/// So many are kept of each kind.
const SAMPLES_MAX: usize = 1 << 16;

/// Ways that were seen.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    to_idle: Vec<u32>,
    to_busy: Vec<u32>,
}

impl Ways {
    /// A thread begins to run, which has waited so long since it was woken, on a CPU where the one before has run, or nobody,
    /// since `since_ns`, and could have gone on.
    pub(crate) fn measure(
        &mut self,
        now: u64,
        wait: Option<u64>,
        since_ns: u64,
        was_idle: bool,
        interrupted: bool,
    ) {
        let Some(wait) = wait.filter(|&wait| self.is_way(wait) && now - wait >= since_ns) else {
            return;
        };
        let samples = match (was_idle, interrupted) {
            (true, _) => &mut self.to_idle,
            (false, true) => &mut self.to_busy,
            (false, false) => return,
        };
        if samples.len() < SAMPLES_MAX {
            samples.push(wait as u32);
        }
    }

    /// Whether a wait is so short that it can be a way.
    pub(crate) fn is_way(&self, wait_ns: u64) -> bool {
        wait_ns <= WAY_MAX_NS
    }

    /// The usual way to an idle CPU, in nanoseconds.
    pub(crate) fn to_idle_ns(&self) -> u64 {
        quantile(&self.to_idle, 0.5)
    }

    /// The usual way to a CPU that is taken from another thread.
    pub(crate) fn to_busy_ns(&self) -> u64 {
        // Some have waited until the tick: the lower half has not.
        quantile(&self.to_busy, 0.25)
    }
}

fn quantile(samples: &[u32], q: f64) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = (q * sorted.len() as f64) as usize;
    sorted.get(at).copied().unwrap_or(0).into()
}
