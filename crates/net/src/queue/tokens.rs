//! The bucket of a shaper: bytes cost tokens, tokens come at a rate, and a bucket holds a burst of them.

use lowtail_engine::{Duration, Time};

use crate::rate::Rate;

/// A token is a byte; in units of one bit per second and picosecond it is a whole number at any
/// rate and any time, so that no rounding adds up.
const UNITS_PER_BYTE: i128 = 8 * 1_000_000_000_000;

/// A bucket. It may be in debt.
#[derive(Debug)]
pub(super) struct Tokens {
    rate: Rate,
    burst: i128,
    tokens: i128,
    filled: Time,
}

impl Tokens {
    /// A full one.
    pub(super) fn new(rate: Rate, burst_bytes: u32) -> Self {
        let burst = i128::from(burst_bytes) * UNITS_PER_BYTE;
        Tokens { rate, burst, tokens: burst, filled: Time::ZERO }
    }

    /// Whether it can ever hold so many bytes.
    pub(super) fn holds(&self, bytes: u64) -> bool {
        i128::from(bytes) * UNITS_PER_BYTE <= self.burst
    }

    /// When it has tokens for so many bytes; `None` if it has them now.
    pub(super) fn ready_at(&mut self, bytes: u64, now: Time) -> Option<Time> {
        let span = now.saturating_since(self.filled);
        let tokens = i128::from(span.as_ps()) * i128::from(self.rate.bits_per_s());
        self.tokens = (self.tokens + tokens).min(self.burst);
        self.filled = now;
        let missing = i128::from(bytes) * UNITS_PER_BYTE - self.tokens;
        let missing = u128::try_from(missing).ok().filter(|missing| *missing > 0)?;
        let span = missing.div_ceil(u128::from(self.rate.bits_per_s()));
        Some(now + Duration::from_ps(span as u64))
    }

    /// Takes tokens for so many bytes, even if there are fewer.
    pub(super) fn pay(&mut self, bytes: u64) {
        self.tokens -= i128::from(bytes) * UNITS_PER_BYTE;
    }
}
