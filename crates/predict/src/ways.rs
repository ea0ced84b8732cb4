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

/// What a wake-up under small-first that interrupts nobody takes from who runs, beyond what one under the fair class takes, in thousandths of
/// the way to an idle CPU: 18.52 us (`refused` in costs/qemu-icount-ext.toml) less 10.20 us, both measured by
/// `cargo run -p lowtail-play --example calibrate` in `scripts/guest`, where that way takes 16.95 us, and the one to a busy CPU 24.7 us.
const REFUSED_TO_IDLE: u64 = 491;
/// The same, in thousandths of the way to a busy CPU.
const REFUSED_TO_BUSY: u64 = 337;

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

    /// What small-first takes from who runs for a wake-up that interrupts nobody, beyond what the fair class takes. Ways measure how fast the
    /// host is.
    pub(crate) fn refused(&self) -> Duration {
        let of = |samples: &[u32], q, part| quantile(samples, q).mul_div(part, 1000);
        if self.to_idle.len() >= SAMPLES_MIN {
            of(&self.to_idle, 0.5, REFUSED_TO_IDLE)
        } else {
            of(&self.to_busy, 0.4, REFUSED_TO_BUSY)
        }
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
