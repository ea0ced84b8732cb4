//! What `apply --watch` says of what happens: a bounded number of lines, whatever happens on the host.
//!
//! Each kind of line has a token bucket. What it has no token for is counted, and the count is a line from time to time: who
//! begins a thousand VMs fills no log, and nothing is left out in silence.

use std::time::{Duration, Instant};

use crate::out;

/// Lines of one kind at once.
const BURST: u64 = 20;
/// From one more line of a kind to the next.
const REFILL: Duration = Duration::from_secs(5);
/// From one count of what was left out to the next.
const COUNT: Duration = Duration::from_secs(10);

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A VM has come or gone.
    Vm,
    /// A value has changed.
    Change,
    /// Something that somebody may want to know.
    Note,
    /// A value that a place was not given.
    Refused,
    /// Something has gone wrong.
    Error,
    /// What the guard has decided.
    Guard,
}

const KINDS: [(Kind, &str, &str); 6] = [
    (Kind::Vm, "VM that has come or gone", "VMs that have come or gone"),
    (Kind::Change, "change", "changes"),
    (Kind::Note, "note", "notes"),
    (Kind::Refused, "refusal", "refusals"),
    (Kind::Error, "error", "errors"),
    (Kind::Guard, "decision of the guard", "decisions of the guard"),
];

/// Lines of one kind.
#[derive(Debug)]
struct Bucket {
    tokens: u64,
    filled: Instant,
    left_out: u64,
}

/// Lets lines pass, as many as there are tokens for.
#[derive(Debug)]
pub(crate) struct Log {
    buckets: [Bucket; KINDS.len()],
    counted: Instant,
    /// Only what has gone wrong is said.
    quiet: bool,
}

impl Log {
    pub(crate) fn new(now: Instant, quiet: bool) -> Self {
        let bucket = || Bucket { tokens: BURST, filled: now, left_out: 0 };
        Log { buckets: std::array::from_fn(|_| bucket()), counted: now, quiet }
    }

    /// Whether another line of this kind may be said; if not, it is counted.
    fn passes(&mut self, kind: Kind, now: Instant) -> bool {
        let bucket = &mut self.buckets[kind as usize];
        let since = now.saturating_duration_since(bucket.filled);
        let more = (since.as_nanos() / REFILL.as_nanos()) as u64;
        if more > 0 {
            bucket.tokens = bucket.tokens.saturating_add(more).min(BURST);
            bucket.filled = now;
        }
        match bucket.tokens.checked_sub(1) {
            Some(left) => {
                bucket.tokens = left;
                true
            }
            None => {
                bucket.left_out += 1;
                false
            }
        }
    }

    /// How many lines were left out since it was said last, kind by kind.
    fn count(&mut self, now: Instant, at_end: bool) -> Vec<(Kind, String)> {
        if !at_end && now.saturating_duration_since(self.counted) < COUNT {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for (bucket, (kind, one, many)) in self.buckets.iter_mut().zip(KINDS) {
            let n = std::mem::take(&mut bucket.left_out);
            if n > 0 {
                lines.push((kind, format!("... and {n} more {}", if n == 1 { one } else { many })));
                self.counted = now;
            }
        }
        lines
    }

    /// Says a line, or counts it: changes and VMs on standard output, the others on standard error.
    pub(crate) fn say(&mut self, kind: Kind, line: impl FnOnce() -> String) {
        if self.quiet && kind != Kind::Error {
            return;
        }
        if self.passes(kind, Instant::now()) {
            write(kind, &line());
        }
    }

    /// Says what was left out, now and then, and at the end.
    pub(crate) fn rest(&mut self, at_end: bool) {
        for (kind, line) in self.count(Instant::now(), at_end) {
            write(kind, &line);
        }
    }
}

/// Nobody may be there to read it; that ends nothing.
fn write(kind: Kind, line: &str) {
    match kind {
        Kind::Vm | Kind::Change => drop(out::text(&format!("{line}\n"))),
        Kind::Note | Kind::Refused | Kind::Error | Kind::Guard => out::note(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of rounds in each of which a hundred VMs come and go, with ten changes each: lines are at most as many
    /// as the buckets let pass, and what passes and what is counted are all there was.
    #[test]
    fn an_hour_of_churn_is_a_few_lines() {
        let begin = Instant::now();
        let mut log = Log::new(begin, false);
        let rounds = 3600;
        let (mut passed, mut counted, mut counts) = ([0u64; 2], [0u64; 2], 0u64);
        let mut take = |lines: Vec<(Kind, String)>| {
            for (kind, line) in lines {
                let n: u64 = line.split(' ').nth(2).and_then(|n| n.parse().ok()).expect("a number");
                counted[kind as usize] += n;
                counts += 1;
            }
        };
        for round in 0..rounds {
            let now = begin + Duration::from_secs(round);
            for (kind, n) in [(Kind::Vm, 200), (Kind::Change, 2000)] {
                for _ in 0..n {
                    passed[kind as usize] += u64::from(log.passes(kind, now));
                }
            }
            take(log.count(now, false));
        }
        take(log.count(begin + Duration::from_secs(rounds), true));
        assert_eq!([passed[0] + counted[0], passed[1] + counted[1]], [200 * rounds, 2000 * rounds]);
        // A burst and what comes in an hour; a count each 10 s for each kind.
        let most = BURST + rounds / REFILL.as_secs();
        assert!(
            passed.iter().all(|n| *n <= most) && passed.iter().all(|n| *n >= BURST),
            "{passed:?}"
        );
        assert!(counts <= 2 * (rounds / COUNT.as_secs() + 1), "{counts}");
    }

    /// One kind does not take another's lines: who makes changes hides no error.
    #[test]
    fn kinds_are_apart() {
        let now = Instant::now();
        let mut log = Log::new(now, false);
        assert!((0..1000).map(|_| log.passes(Kind::Change, now)).filter(|p| *p).count() == 20);
        assert!(log.passes(Kind::Error, now));
        assert_eq!(log.count(now, true), [(Kind::Change, "... and 980 more changes".to_string())]);
        assert_eq!(log.count(now, true), []);
    }

    /// With few lines, all are said.
    #[test]
    fn what_is_rare_is_said() {
        let begin = Instant::now();
        let mut log = Log::new(begin, false);
        for n in 0..1000 {
            assert!(log.passes(Kind::Note, begin + n * REFILL), "{n}");
        }
    }
}
