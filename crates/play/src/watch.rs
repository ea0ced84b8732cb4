//! A thread that computes and notes when it could not.

use lowtail_engine::Duration;
use lowtail_kernel::clock::Instant;

/// Who misses so much has lost its CPU to another that computes: more than an interrupt, less than a slice.
pub(crate) const TURN: Duration = Duration::from_us(300);

/// What a thread notes.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Of a sleeper, how late it was woken, ...
    pub(crate) late: Vec<Duration>,
    /// ... its CPU time from before it slept until it was awake, ...
    pub(crate) charged: Vec<Duration>,
    /// ... when it went to sleep, ...
    pub(crate) asleep: Vec<Instant>,
    /// ... and when its timer was set to.
    pub(crate) due: Vec<Instant>,
    /// Of a thread that computes, its last turn before it missed something, and its first one after that.
    pub(crate) missed: Vec<(Instant, Instant)>,
}

impl Log {
    /// When a thread that computes first went on after `then`.
    pub(crate) fn after(&self, then: Instant) -> Option<Instant> {
        Some(self.missed_until(then)?.1)
    }

    /// For how long a thread that computes missed the moment `then`, if it did.
    pub(crate) fn missed_at(&self, then: Instant) -> Option<Duration> {
        let (last, first) = self.missed_until(then)?;
        (last <= then).then(|| first.since(last))
    }

    /// What it missed first of all that it missed after `then`, or up to later than that.
    fn missed_until(&self, then: Instant) -> Option<(Instant, Instant)> {
        let next = self.missed.partition_point(|missed| missed.1 <= then);
        self.missed.get(next).copied()
    }
}

/// Computes until it is `over`, and notes what it missed.
pub(crate) fn watch(over: impl Fn(Instant) -> bool) -> Log {
    let mut log = Log::default();
    let (mut last, mut usual) = (Instant::now(), Duration::MAX);
    while !over(last) {
        let now = Instant::now();
        let step = now.since(last);
        usual = usual.min(step);
        if step > usual * 3 {
            log.missed.push((last, now));
        }
        last = now;
    }
    log
}

/// What one reading of the clock takes.
pub(crate) fn clock_reading() -> Duration {
    let n = 1_000;
    let began = Instant::now();
    (0..n).for_each(|_| {
        std::hint::black_box(Instant::now());
    });
    Instant::now().since(began) / n
}

pub(crate) fn median(spans: impl Iterator<Item = Duration>) -> Duration {
    let mut spans: Vec<Duration> = spans.collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied().unwrap_or_default()
}
