//! What an interrupt that woke a thread was: its own timer, or something that came from outside.
//!
//! A thread that sleeps for a while is woken so long after it went to sleep, however late it had been before: under another scheduler, which
//! lets it run sooner, it is woken sooner. What comes from outside (requests, the period of a clock) comes when it comes. The recording
//! tells one from the other in two ways, since how long a thread waits varies by itself:
//!
//! * The later a thread was, the shorter it sleeps until the next instant of a clock, or request. Not so for requests that come by chance
//!   (a Poisson process): how long the next one is still away does not depend on how long one has been busy.
//! * But the longer a thread had to wait, the more of those have come meanwhile, and the more it has to do. For each second that it waits it
//!   has as much more work as it does in a second on average.

use lowtail_trace::events::Context;

use crate::history::{Segment, WokenBy};

/// A slope that is less certain than this says nothing.
const UNSURE: f64 = 0.25;
/// So uncertain a slope, relative to the one that there would be, tells one from none more often than not.
const TELLING: f64 = 0.75;
/// Times of which one is as good as constant, relative to their mean.
const CONSTANT: f64 = 0.02;

/// What the interrupts are that wake a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupts {
    /// Its own timer, so long after it goes to sleep.
    Timer,
    /// They come from outside.
    Arrivals,
}

/// Sums over pairs of numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    /// Welford's way, which keeps its precision.
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += dx / self.n;
        self.mean_y += dy / self.n;
        self.xx += dx * (x - self.mean_x);
        self.yy += dy * (y - self.mean_y);
        self.xy += dx * (y - self.mean_y);
    }

    /// The slope of y by x, and its standard error.
    fn slope(&self) -> Option<(f64, f64)> {
        if self.n < 4.0 || self.xx <= 0.0 {
            return None;
        }
        let slope = self.xy / self.xx;
        let rest = (self.yy - slope * self.xy).max(0.0);
        Some((slope, (rest / (self.n - 2.0) / self.xx).sqrt()))
    }

    /// Whether y is as good as constant.
    fn is_constant(&self) -> bool {
        self.n > 2.0 && (self.yy / (self.n - 1.0)).sqrt() < CONSTANT * self.mean_y
    }
}

/// What wakes the thread of these segments.
pub(crate) fn interrupts(segments: &[Segment]) -> Interrupts {
    let (mut sleeps, mut periods, mut backlog) =
        (Sums::default(), Sums::default(), Sums::default());
    let (mut hard, mut all) = (0, 0);
    for pair in segments.windows(2) {
        let WokenBy::Interrupt(context) = pair[1].woken_by else { continue };
        all += 1;
        hard += u32::from(context == Context::HardInterrupt);
        // From a wake-up to the sleep after it, and from there to the next one.
        let awake = pair[1].slept_ns.saturating_sub(pair[0].woken_ns) as f64;
        let work = pair[0].work_ns as f64;
        sleeps.add(awake, pair[1].woken_ns.saturating_sub(pair[1].slept_ns) as f64);
        periods.add(awake, pair[1].woken_ns.saturating_sub(pair[0].woken_ns) as f64);
        // Before it began to work: while it does, it is more work that makes it wait for longer.
        backlog.add(pair[0].wait_ns as f64, work);
    }
    if let Some((slope, error)) = sleeps.slope()
        && error < UNSURE
        && slope < -0.5
    {
        return Interrupts::Arrivals;
    }
    let load = backlog.mean_y / periods.mean_y.max(1.0);
    if let Some((slope, error)) = backlog.slope()
        && error < TELLING * load
    {
        return if slope > load / 2.0 { Interrupts::Arrivals } else { Interrupts::Timer };
    }
    if let Some((_, error)) = sleeps.slope()
        && error < UNSURE
    {
        return Interrupts::Timer;
    }
    if sleeps.is_constant() != periods.is_constant() {
        return if sleeps.is_constant() { Interrupts::Timer } else { Interrupts::Arrivals };
    }
    // A timer ends in a hard interrupt, packets come in soft ones.
    if 2 * hard > all { Interrupts::Timer } else { Interrupts::Arrivals }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of one who computes for as long as `work` says and is then woken as `next` says, of when it woke and slept.
    fn thread(work: impl Fn(u64) -> u64, next: impl Fn(u64, u64, u64) -> u64) -> Vec<Segment> {
        let (mut woken_ns, mut slept_ns) = (0, 0);
        let mut segments = Vec::new();
        for n in 0..200 {
            let woken_by = WokenBy::Interrupt(Context::HardInterrupt);
            segments.push(Segment {
                slept_ns,
                woken_ns,
                woken_by,
                wait_ns: 0,
                work_ns: work(n),
                wakes_from: 0,
            });
            slept_ns = woken_ns + work(n);
            woken_ns = next(n, woken_ns, slept_ns).max(slept_ns);
        }
        segments
    }

    /// A number from 0 to 999 that looks like chance.
    fn random(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
            % 1000
    }

    #[test]
    fn sleeps_and_periods_are_told_apart() {
        let uneven = |n: u64| 100_000 + 1_000 * random(n);
        // Sleeps of chance, which do not care when it went to sleep.
        let sleeper = thread(uneven, |n, _, slept| slept + 500_000 + 3_000 * random(n + 7_777));
        assert_eq!(interrupts(&sleeper), Interrupts::Timer);
        // Requests that come by chance, seldom while it is busy.
        let server = thread(uneven, |n, woken, _| woken + 1_500_000 + 3_000 * random(n + 7_777));
        assert_eq!(interrupts(&server), Interrupts::Arrivals);
        // A clock, and one who sleeps as long each time, always with the same work.
        let even = |_| 200_000;
        let jitter = |n| 20 * random(n + 99);
        let clock = thread(even, |n, woken, _| woken - woken % 2_000_000 + 2_000_000 + jitter(n));
        let period = interrupts(&clock);
        assert_eq!(period, Interrupts::Timer, "nothing tells which: it makes no difference either");
        let uneven_clock = thread(uneven, |_, woken, _| woken + 2_000_000);
        assert_eq!(interrupts(&uneven_clock), Interrupts::Arrivals);
        // Requests that come by chance, of 100 us, while it waits for up to 2 ms for its CPU and after that.
        let (mut segments, mut woken_ns, mut due, mut n) = (Vec::new(), 0, 0, 0);
        let mut slept_ns = 0;
        while segments.len() < 400 {
            let (wait, mut work_ns) = (2_000 * random(n + 5), 0);
            let mut end = woken_ns + wait;
            while due <= end {
                (work_ns, end) = (work_ns + 100_000, end + 100_000);
                n += 1;
                due += (-(1.0 - random(3 * n) as f64 / 1000.0).ln() * 500_000.0) as u64;
            }
            let woken_by = WokenBy::Interrupt(Context::HardInterrupt);
            segments.push(Segment {
                slept_ns,
                woken_ns,
                woken_by,
                wait_ns: wait,
                work_ns,
                wakes_from: 0,
            });
            (slept_ns, woken_ns) = (end, due);
        }
        assert_eq!(interrupts(&segments), Interrupts::Arrivals);
        let usleep = thread(uneven, |_, _, slept| slept + 2_000_000);
        assert_eq!(interrupts(&usleep), Interrupts::Timer);
    }
}
