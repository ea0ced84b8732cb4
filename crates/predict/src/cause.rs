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
use serde::Serialize;

use crate::history::{Segment, WokenBy};

/// A slope that is less certain than this says nothing.
const UNSURE: f64 = 0.25;
/// So uncertain a slope, relative to the one that there would be, tells one from none more often than not.
const TELLING: f64 = 0.75;
/// Times of which one is as good as constant, relative to their mean.
const CONSTANT: f64 = 0.02;

/// What the interrupts are that wake a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
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

/// How it was decided what a thread's interrupts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedBy {
    /// How long it sleeps, by how late it was: the slope is 0 for a timer, -1 for a clock or requests outside.
    Sleeps,
    /// How much it has to do, by how long it had to wait: the slope is 0 for a timer, its share of a CPU for requests.
    Backlog,
    /// Its sleeps or its periods are as good as constant, and the others are not.
    Constancy,
    /// Nothing but the context in the kernel: timers end in hard interrupts, packets come in soft ones.
    Context,
    /// Whoever asks has said so.
    Given,
}

impl DecidedBy {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            DecidedBy::Sleeps => "how long it sleeps",
            DecidedBy::Backlog => "how much work has come",
            DecidedBy::Constancy => "constant times",
            DecidedBy::Context => "the kernel's context",
            DecidedBy::Given => "you",
        }
    }
}

/// How certain that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// As probable as not, or little more.
    Guess,
    /// The slope is more than one standard error beyond what would mean the other; or times are constant.
    Likely,
    /// More than three standard errors; or somebody has said it.
    Certain,
}

impl Certainty {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Guess => "a guess",
            Certainty::Likely => "likely",
            Certainty::Certain => "certain",
        }
    }

    /// Of a slope that is so far from the limit between both answers.
    fn of(distance: f64, error: f64) -> Self {
        match distance.abs() / error.max(f64::MIN_POSITIVE) {
            z if z > 3.0 => Certainty::Certain,
            z if z > 1.0 => Certainty::Likely,
            _ => Certainty::Guess,
        }
    }
}

/// What a thread's interrupts are taken for, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) interrupts: Interrupts,
    pub(crate) by: DecidedBy,
    pub(crate) certainty: Certainty,
    /// The slope that decided, what it would be for requests (it is 0 for a timer), and its standard error.
    pub(crate) slope: Option<(f64, f64, f64)>,
}

impl Judgement {
    /// Somebody has said so.
    pub(crate) fn given(interrupts: Interrupts) -> Self {
        let (by, certainty) = (DecidedBy::Given, Certainty::Certain);
        Judgement { interrupts, by, certainty, slope: None }
    }

    /// By a slope that is 0 for a timer and `outside` for what comes from outside.
    fn by_slope(by: DecidedBy, (slope, error): (f64, f64), outside: f64) -> Self {
        let arrivals = if outside < 0.0 { slope < outside / 2.0 } else { slope > outside / 2.0 };
        let interrupts = if arrivals { Interrupts::Arrivals } else { Interrupts::Timer };
        let certainty = Certainty::of(slope - outside / 2.0, error);
        Judgement { interrupts, by, certainty, slope: Some((slope, outside, error)) }
    }
}

/// What wakes the thread of these segments.
pub(crate) fn interrupts(segments: &[Segment]) -> Judgement {
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
    let by_sleeps = sleeps.slope().filter(|&(_, error)| error < UNSURE);
    let by_sleeps = by_sleeps.map(|of| Judgement::by_slope(DecidedBy::Sleeps, of, -1.0));
    if let Some(arrivals) = by_sleeps.filter(|by| by.interrupts == Interrupts::Arrivals) {
        return arrivals;
    }
    let load = backlog.mean_y / periods.mean_y.max(1.0);
    if let Some(slope) = backlog.slope().filter(|&(_, error)| error < TELLING * load) {
        return Judgement::by_slope(DecidedBy::Backlog, slope, load);
    }
    if let Some(mut timer) = by_sleeps {
        // No clock, but requests that come by chance have that slope, too.
        timer.certainty = Certainty::Guess;
        return timer;
    }
    let decided = |timer: bool, by, certainty| {
        let interrupts = if timer { Interrupts::Timer } else { Interrupts::Arrivals };
        Judgement { interrupts, by, certainty, slope: None }
    };
    if sleeps.is_constant() != periods.is_constant() {
        return decided(sleeps.is_constant(), DecidedBy::Constancy, Certainty::Likely);
    }
    // A timer ends in a hard interrupt, packets come in soft ones.
    decided(2 * hard > all, DecidedBy::Context, Certainty::Guess)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(segments: &[Segment]) -> Interrupts {
        interrupts(segments).interrupts
    }

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
        assert_eq!(told(&sleeper), Interrupts::Timer);
        assert_eq!(
            interrupts(&sleeper).certainty,
            Certainty::Guess,
            "requests by chance look like it"
        );
        // Requests that come by chance, seldom while it is busy.
        let server = thread(uneven, |n, woken, _| woken + 1_500_000 + 3_000 * random(n + 7_777));
        assert_eq!(told(&server), Interrupts::Arrivals);
        // A clock, and one who sleeps as long each time, always with the same work.
        let even = |_| 200_000;
        let jitter = |n| 20 * random(n + 99);
        let clock = thread(even, |n, woken, _| woken - woken % 2_000_000 + 2_000_000 + jitter(n));
        let period = told(&clock);
        assert_eq!(period, Interrupts::Timer, "nothing tells which: it makes no difference either");
        let uneven_clock = thread(uneven, |_, woken, _| woken + 2_000_000);
        assert_eq!(told(&uneven_clock), Interrupts::Arrivals);
        let why = interrupts(&uneven_clock);
        assert_eq!((why.by, why.certainty), (DecidedBy::Sleeps, Certainty::Certain), "{why:?}");
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
        assert_eq!(told(&segments), Interrupts::Arrivals);
        assert_eq!(interrupts(&segments).by, DecidedBy::Backlog);
        let few = interrupts(&segments[..2]);
        assert_eq!((few.by, few.certainty), (DecidedBy::Context, Certainty::Guess));
        let usleep = thread(uneven, |_, _, slept| slept + 2_000_000);
        assert_eq!(told(&usleep), Interrupts::Timer);
    }
}
