//! Computing for a given time.

use std::hint::black_box;

use lowtail_engine::Duration;
use lowtail_kernel::clock::{Instant, own_cpu};

/// The longest stretch without a look whether the run is over.
const STRETCH: Duration = Duration::from_us(100);
/// Measurements of which the shortest counts: what is longer was interrupted.
const TRIES: u32 = 50;

/// What computing takes on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spin {
    /// Picoseconds a turn of the loop.
    turn_ps: u64,
    /// A reading of the thread's CPU clock: a system call.
    reading: Duration,
    /// A look whether the run is over, at the clock: a system call, too, in some guests.
    look: Duration,
    /// Whether a turn always takes the same time.
    exact: bool,
}

impl Spin {
    /// Measures both. `exact`: each instruction takes the same time on this machine, so that turns are counted; elsewhere the
    /// frequency changes, and the CPU clock of the thread is read.
    pub(crate) fn measure(exact: bool) -> Self {
        let shortest = |work: &dyn Fn()| {
            let tries = (0..TRIES).map(|_| {
                let before = own_cpu();
                work();
                own_cpu().saturating_sub(before)
            });
            tries.min().unwrap_or_default()
        };
        let reading = shortest(&|| {});
        let (few, many) = (1_000, 5_000);
        let span = shortest(&|| turns(many)).saturating_sub(shortest(&|| turns(few)));
        let looks = |n: u32| {
            shortest(&|| {
                (0..n).for_each(|_| {
                    black_box(Instant::now());
                });
            })
        };
        let look = looks(22).saturating_sub(looks(2)) / 20;
        Spin { look, turn_ps: (span.as_ps() / (many - few)).max(1), reading, exact }
    }

    /// What a reading of the thread's CPU clock takes.
    pub(crate) fn reading(&self) -> Duration {
        self.reading
    }

    /// Computes for `work`, or until `over`. What interrupts take is not part of it where the clock is exact.
    pub(crate) fn compute(&self, work: Duration, over: impl Fn() -> bool) {
        if self.exact || work <= self.reading {
            let mut left = work;
            while !left.is_zero() && !over() {
                let stretch = left.min(STRETCH);
                self.spin(stretch.saturating_sub(self.look));
                left -= stretch;
            }
            return;
        }
        // The first reading is half before and the last half after what it reads.
        let until = own_cpu() + (work - self.reading);
        while !over() {
            let left = until.saturating_sub(own_cpu());
            if left <= self.reading {
                return self.spin(left);
            }
            // Half of it: a CPU may be slower now than it was measured, by half where the other thread of its core is busy.
            self.spin(STRETCH.min((left - self.reading) / 2));
        }
    }

    fn spin(&self, span: Duration) {
        turns(span.as_ps() / self.turn_ps);
    }
}

/// Plain arithmetic: a pause instruction could hand the CPU to somebody else below a hypervisor.
#[inline(never)]
fn turns(n: u64) {
    for i in 0..n {
        black_box(i);
    }
}

#[cfg(test)]
mod tests {
    use lowtail_testkit::tries::tries;

    use super::*;

    /// By its CPU clock a thread computes as long as it is told, in the median of many times, however little that is.
    #[test]
    fn computes_as_long_as_it_is_told() {
        tries(|| {
            let measured = Spin::measure(false);
            // And where the CPU is only half as fast as it was when it was measured.
            let slower = Spin { turn_ps: measured.turn_ps.div_ceil(2), ..measured };
            for (spin, work) in [measured, slower]
                .iter()
                .flat_map(|spin| [20, 50, 330, 2_000].map(|us| (spin, Duration::from_us(us))))
            {
                let mut took: Vec<Duration> = (0..21)
                    .map(|_| {
                        let before = own_cpu();
                        spin.compute(work, || false);
                        own_cpu().saturating_sub(before).saturating_sub(spin.reading())
                    })
                    .collect();
                took.sort_unstable();
                let median = took[10];
                let off = median.as_ps().abs_diff(work.as_ps());
                assert!(off <= work.as_ps() / 10 + 1_000_000, "{work}: {median} of {took:?}");
            }
        });
    }

    #[test]
    fn ends_when_it_is_over() {
        let before = own_cpu();
        Spin::measure(true).compute(Duration::from_s(3_600), || true);
        Spin::measure(false).compute(Duration::from_s(3_600), || true);
        assert!(own_cpu().saturating_sub(before) < Duration::from_s(60));
    }
}
