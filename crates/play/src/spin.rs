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
        self.compute_on(&mut ThisCpu, work, over);
    }

    fn compute_on(&self, cpu: &mut impl Cpu, work: Duration, over: impl Fn() -> bool) {
        if self.exact || work <= self.reading {
            let mut left = work;
            while !left.is_zero() && !over() {
                let stretch = left.min(STRETCH);
                cpu.turns(self.turns_of(stretch.saturating_sub(self.look)));
                left -= stretch;
            }
            return;
        }
        // The first reading is half before and the last half after what it reads.
        let until = cpu.time() + (work - self.reading);
        while !over() {
            let left = until.saturating_sub(cpu.time());
            if left <= self.reading {
                return cpu.turns(self.turns_of(left));
            }
            // Half of it: a CPU may be slower now than it was measured, by half where the other thread of its core is busy.
            cpu.turns(self.turns_of(STRETCH.min((left - self.reading) / 2)));
        }
    }

    fn turns_of(&self, span: Duration) -> u64 {
        span.as_ps() / self.turn_ps
    }
}

/// What computes.
trait Cpu {
    /// The thread's CPU clock.
    fn time(&mut self) -> Duration;
    /// Turns of the loop.
    fn turns(&mut self, n: u64);
}

/// The CPU that we are on.
struct ThisCpu;

impl Cpu for ThisCpu {
    fn time(&mut self) -> Duration {
        own_cpu()
    }

    fn turns(&mut self, n: u64) {
        turns(n);
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
    use super::*;

    /// A CPU on which a turn takes `turn_ps(how many came before)`, and a reading of the clock `reading`.
    struct Made<F> {
        now: Duration,
        reading: Duration,
        stretches: usize,
        turn_ps: F,
    }

    impl<F: Fn(usize) -> u64> Cpu for Made<F> {
        fn time(&mut self) -> Duration {
            let half = self.reading / 2;
            self.now += self.reading;
            self.now - half
        }

        fn turns(&mut self, n: u64) {
            self.now += Duration::from_ps(n * (self.turn_ps)(self.stretches));
            self.stretches += 1;
        }
    }

    /// Measured: a turn takes 400 ps, a reading 1 us.
    fn computed(work: Duration, turn_ps: impl Fn(usize) -> u64) -> Duration {
        let reading = Duration::from_us(1);
        let spin = Spin { turn_ps: 400, reading, look: Duration::from_ns(30), exact: false };
        let mut cpu = Made { now: Duration::ZERO, reading, stretches: 0, turn_ps };
        spin.compute_on(&mut cpu, work, || false);
        cpu.now
    }

    /// By its CPU clock a thread computes as long as it is told, however little that is, on a CPU that is faster or slower than it
    /// was measured, up to half as fast, or now the one and now the other.
    #[test]
    fn computes_as_long_as_it_is_told() {
        for work in [20, 50, 330, 2_000].map(Duration::from_us) {
            let is = |computed: Duration, speed: &str| {
                let off = computed.as_ps().abs_diff(work.as_ps());
                let word = format!("{work}: {computed} on a CPU that is {speed}");
                assert!(off <= Duration::from_us(2).as_ps(), "{word}");
            };
            is(computed(work, |_| 400), "as it was measured");
            is(computed(work, |_| 200), "twice as fast");
            is(computed(work, |_| 800), "half as fast");
            is(computed(work, |stretch| [800, 400][stretch % 2]), "slower now and then");
            is(computed(work, |stretch| [400, 800, 200][stretch % 3]), "never the same");
        }
    }

    /// So it does on this machine. What else a CPU does in a thread's name, interrupts and the packets that come with them, is
    /// time of its clock, too, and only ever adds: the shortest of many counts.
    #[test]
    fn computes_as_long_as_it_is_told_on_this_machine() {
        let measured = Spin::measure(false);
        // And where the CPU is only half as fast as it was when it was measured.
        let slower = Spin { turn_ps: measured.turn_ps.div_ceil(2), ..measured };
        for (spin, work) in [measured, slower]
            .iter()
            .flat_map(|spin| [20, 50, 330, 2_000].map(|us| (spin, Duration::from_us(us))))
        {
            let took = (0..101).map(|_| {
                let before = own_cpu();
                spin.compute(work, || false);
                own_cpu().saturating_sub(before).saturating_sub(spin.reading())
            });
            let took = took.min().expect("more than none");
            let off = took.as_ps().abs_diff(work.as_ps());
            assert!(off <= work.as_ps() / 10 + 1_000_000, "{work}: {took}");
        }
    }

    #[test]
    fn ends_when_it_is_over() {
        let before = own_cpu();
        Spin::measure(true).compute(Duration::from_s(3_600), || true);
        Spin::measure(false).compute(Duration::from_s(3_600), || true);
        assert!(own_cpu().saturating_sub(before) < Duration::from_s(60));
    }
}
