//! The host's clocks, in nanoseconds.

use std::io;
use std::sync::OnceLock;

use lowtail_engine::Duration;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_getres, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;

/// An instant of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// Now.
    pub fn now() -> Self {
        // This clock cannot be missing: POSIX has it, and so has each Linux.
        Instant(clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, ns))
    }

    /// As the kernel counts it, `ktime_get_ns()`. In a time namespace this process has another `CLOCK_MONOTONIC` than the
    /// kernel's programs.
    pub fn as_ns(self) -> u64 {
        static OFFSET: OnceLock<i64> = OnceLock::new();
        let offset = OFFSET.get_or_init(|| {
            // A kernel without time namespaces has no such file.
            let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
            monotonic_offset(&text)
        });
        self.0.saturating_add_signed(offset.saturating_neg())
    }

    /// So much later.
    pub fn after(self, span: Duration) -> Self {
        Instant(self.0.saturating_add(span.as_ns()))
    }

    /// What has passed since `earlier`; zero if that is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_ns(self.0.saturating_sub(earlier.0))
    }

    /// Sleeps until then, however often a signal handler is run meanwhile.
    pub fn sleep(self) {
        let until = TimeSpec::new((self.0 / 1_000_000_000) as i64, (self.0 % 1_000_000_000) as i64);
        let absolute = ClockNanosleepFlags::TIMER_ABSTIME;
        while clock_nanosleep(ClockId::CLOCK_MONOTONIC, absolute, &until) == Err(Errno::EINTR) {}
    }
}

/// What is added to the kernel's `CLOCK_MONOTONIC` here, in nanoseconds: seconds and nanoseconds behind its name
/// (time_namespaces(7)).
fn monotonic_offset(text: &str) -> i64 {
    let numbers = text.lines().find_map(|line| line.strip_prefix("monotonic"));
    let mut numbers =
        numbers.into_iter().flat_map(str::split_ascii_whitespace).map(str::parse::<i64>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    next().saturating_mul(1_000_000_000).saturating_add(next())
}

fn ns(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// From one scheduling-clock interrupt of this kernel to the next, 1/`CONFIG_HZ`: how often `CLOCK_MONOTONIC_COARSE` moves
/// (`clock_getres(2)`).
pub fn tick_period() -> Duration {
    Duration::from_ns(clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or(0, ns))
}

/// Processor time of the calling thread.
pub fn own_cpu() -> Duration {
    Duration::from_ns(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, ns))
}

/// Processor time of the thread `tid` of this process, up to now also if it runs.
///
/// The number of that clock is the one that `pthread_getcpuclockid(3)` gives: the complement of
/// the thread's number, shifted, and three bits for "of a thread, as the scheduler counts"
/// (`include/linux/posix-timers_types.h`: `CPUCLOCK_PERTHREAD_MASK`, `CPUCLOCK_SCHED`).
pub fn cpu_of(tid: Pid) -> io::Result<Duration> {
    let clock = ClockId::from_raw(!tid.as_raw() << 3 | 0b110);
    Ok(Duration::from_ns(ns(clock.now()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::gettid;

    /// The clock seen from outside is the thread's own one.
    #[test]
    fn one_clock_from_both_sides() {
        let before = own_cpu();
        while own_cpu().saturating_sub(before) < Duration::from_ms(5) {}
        let (low, seen, high) = (own_cpu(), cpu_of(gettid()).expect("own thread"), own_cpu());
        assert!(low <= seen && seen <= high, "{low} {seen} {high}");
        assert!(cpu_of(Pid::from_raw(1)).is_err(), "not a thread of this process");
    }

    /// As Linux prints them: `%-10s %10lld %9ld`, timens_offsets_show of kernel/time/namespace.c.
    #[test]
    fn offsets_of_a_time_namespace() {
        let text = "monotonic           -3 500000000\nboottime         86400         0\n";
        assert_eq!(monotonic_offset(text), -2_500_000_000);
        for text in ["", "monotonic", "monotonic  x y\n", "boottime 1 0\n"] {
            assert_eq!(monotonic_offset(text), 0, "{text}");
        }
    }

    #[test]
    fn sleeps_until_the_instant() {
        let due = Instant::now().after(Duration::from_ms(3));
        due.sleep();
        assert!(Instant::now() >= due);
        due.sleep();
    }
}
