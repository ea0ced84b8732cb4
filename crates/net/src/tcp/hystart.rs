//! HyStart: when slow start has filled the way, before it loses anything (Ha and Rhee, PFLDnet 2008; Linux
//! `hystart_update`).
//!
//! Two signs are looked for, round by round. The acknowledgements of a round come close behind each
//! other (an *ack train*) for longer than half of the least round trip: so much was under way that the way is full. Or the round trips
//! of a round are longer than the least one ever: what is sent waits.

use lowtail_engine::{Duration, Time};

use crate::packet::MSS_BYTES;

/// Below this window nothing is looked for (Linux `hystart_low_window`: 16 segments).
pub(super) const LEAST_WINDOW: u64 = 16 * MSS_BYTES as u64;
/// Acknowledgements that come so close to each other are one train (Linux `hystart_ack_delta_us`).
const TRAIN_GAP: Duration = Duration::from_ms(2);
/// Most that a train may be longer for what senders and receivers put together (Linux `hystart_ack_delay`).
const TOGETHER_MAX: Duration = Duration::from_ms(1);
/// Bytes that may be put together, there and at the receiver, twice: four times Linux's `sk_gso_max_size`.
const TOGETHER_BYTES: u64 = 4 * 65_536;
/// Round trips of a round before the least of them is judged (Linux `HYSTART_MIN_SAMPLES`).
const SAMPLES: u32 = 8;
/// What a round trip may be longer than the least: an eighth, but 4 to 16 ms (Linux `HYSTART_DELAY_THRESH`).
const DELAY_MIN: Duration = Duration::from_ms(4);
const DELAY_MAX: Duration = Duration::from_ms(16);

/// What an acknowledgement of new bytes says of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The first byte that is not acknowledged.
    pub una: u64,
    /// The first byte that has not been sent.
    pub next: u64,
    /// The round trip.
    pub rtt: Duration,
    /// The smoothed round trip.
    pub srtt: Duration,
    /// Now.
    pub now: Time,
}

/// What is known of the current round.
#[derive(Debug, Clone)]
pub(super) struct HyStart {
    /// The round is over when a byte beyond this one is acknowledged.
    end: u64,
    start: Time,
    /// When the train's last acknowledgement came.
    train: Time,
    least: Duration,
    samples: u32,
    /// The least round trip ever; `MAX` before the first.
    least_ever: Duration,
}

impl HyStart {
    pub(super) fn new() -> Self {
        HyStart {
            end: 0,
            start: Time::ZERO,
            train: Time::ZERO,
            least: Duration::MAX,
            samples: 0,
            least_ever: Duration::MAX,
        }
    }

    /// A round begins; it ends beyond byte `next`.
    pub(super) fn begin(&mut self, next: u64, now: Time) {
        (self.end, self.start, self.train) = (next, now, now);
        (self.least, self.samples) = (Duration::MAX, 0);
    }

    /// Bytes have been acknowledged.
    pub(super) fn sampled(&mut self, sample: &Sample) {
        self.least_ever = self.least_ever.min(sample.rtt);
        // Beyond, as in Linux: an acknowledgement of just the round's end is still of its tail, and
        // `next` then lacks what this one lets go. The rounds would begin earlier and earlier in the
        // tail, where a burst waits for itself.
        if sample.una > self.end {
            self.begin(sample.next, sample.now);
        }
    }

    /// Whether slow start, which goes on, has filled the way, as this `sample` and those before tell.
    pub(super) fn full(&mut self, sample: &Sample, pacing_bytes_per_s: u64) -> bool {
        self.train_is_long(sample, pacing_bytes_per_s) | self.trips_are_long(sample)
    }

    fn train_is_long(&mut self, sample: &Sample, pacing_bytes_per_s: u64) -> bool {
        if sample.now.since(self.train) > TRAIN_GAP {
            return false;
        }
        self.train = sample.now;
        // Nothing is paced here: with pacing, Linux takes all of it and not half.
        let long = (self.least_ever + put_together(pacing_bytes_per_s)) / 2;
        sample.now.since(self.start) > long
    }

    fn trips_are_long(&mut self, sample: &Sample) -> bool {
        self.least = self.least.min(sample.rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.least > self.least_ever + (self.least_ever / 8).clamp(DELAY_MIN, DELAY_MAX)
    }
}

/// How long a train may be for what is put together into long segments on the way.
fn put_together(pacing_bytes_per_s: u64) -> Duration {
    if pacing_bytes_per_s == 0 {
        return Duration::ZERO;
    }
    let us = TOGETHER_BYTES * 1_000_000 / pacing_bytes_per_s;
    Duration::from_us(us).min(TOGETHER_MAX)
}
