//! When the recorded host's CPUs ticked: who computes is made to go by the scheduling-clock interrupt, all of whose CPUs have it at the same
//! instants.

/// Switches within so long of each other are those of a tick.
const WINDOW_NS: u64 = 20_000;
/// So many switches, and such a part of all, tell when it was.
const SWITCHES_MIN: usize = 12;
const PART_MIN: f64 = 0.3;
/// So many are looked at.
const SWITCHES_MAX: usize = 1 << 16;

/// Switches to threads that had waited for longer than any way takes.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    at_ns: Vec<u64>,
}

impl Ticks {
    /// A thread is made to go for one that has waited.
    pub(crate) fn switched(&mut self, now: u64) {
        if self.at_ns.len() < SWITCHES_MAX {
            self.at_ns.push(now);
        }
    }

    /// How long after each multiple of the period it ticks, if the switches tell.
    pub(crate) fn phase_ns(&self, period_ns: u64) -> Option<u64> {
        let mut phases: Vec<u64> = self.at_ns.iter().map(|at| at % period_ns.max(1)).collect();
        phases.sort_unstable();
        let n = phases.len();
        // Around the end of a period, too.
        let around: Vec<u64> = phases.iter().map(|phase| phase + period_ns).collect();
        phases.extend(around);
        let within = |from: usize| {
            let limit = phases[from] + WINDOW_NS;
            phases.partition_point(|&phase| phase <= limit) - from
        };
        let best = (0..n).max_by_key(|&from| (within(from), n - from))?;
        let count = within(best);
        let enough = count >= SWITCHES_MIN && count as f64 >= PART_MIN * n as f64;
        enough.then(|| phases[best] % period_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_is_found_or_not() {
        let mut ticks = Ticks::default();
        for n in 0..100_u64 {
            // Each 4 ms, a few microseconds late, and as many at other times.
            ticks.switched(1_000_000_000 + n * 4_000_000 + 3_995_000 + (n % 7) * 1000);
            ticks.switched(1_000_000_000 + n * 6_123_457);
        }
        assert_eq!(ticks.phase_ns(4_000_000), Some(3_995_000));
        let mut none = Ticks::default();
        (0..100_u64).for_each(|n| none.switched(n * 6_123_457));
        assert_eq!(none.phase_ns(4_000_000), None);
        assert_eq!(Ticks::default().phase_ns(4_000_000), None);
    }
}
