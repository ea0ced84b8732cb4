//! Token bucket: bytes cost tokens, tokens come at a rate, and a bucket holds a burst of them
//! (Linux `sch_tbf`).

use lowtail_engine::{Duration, Time};

use super::fifo::{Fifo, FifoLimit};
use super::peek::Peeked;
use super::{Cause, Queue, QueueContext};
use crate::packet::PacketId;
use crate::rate::Rate;

/// A token is a byte; in units of one bit per second and picosecond it is a whole number at any
/// rate and any time, so that no rounding adds up.
const UNITS_PER_BYTE: u128 = 8 * 1_000_000_000_000;

/// Shapes what another discipline hands out.
///
/// Like `sch_tbf`, it asks the discipline within how long its first packet is, and takes it when
/// there are tokens for all of it. Bands ([`Prio`](super::prio::Prio)) tell that of the most urgent
/// one that is there, so that one that comes meanwhile goes first. Others have to take a packet out
/// to tell its length, and it is held: a more urgent one waits behind it for its time at the rate;
/// with a segment of 64 KB at 100 Mbit/s that is 5 ms.
///
/// A packet longer than the burst could never pass and is dropped (Linux cuts such a segment if
/// its frames would fit; put a [`Split`](super::split::Split) before it).
#[derive(Debug)]
pub struct Tbf {
    rate: Rate,
    burst: u128,
    tokens: u128,
    filled: Time,
    ready_at: Option<Time>,
    inner: Peeked,
}

impl Tbf {
    /// Lets `burst_bytes` pass at once and `rate` in the long run. The bucket is full.
    pub fn new(rate: Rate, burst_bytes: u32, inner: Box<dyn Queue>) -> Self {
        let burst = u128::from(burst_bytes) * UNITS_PER_BYTE;
        Tbf {
            rate,
            burst,
            tokens: burst,
            filled: Time::ZERO,
            ready_at: None,
            inner: Peeked::new(inner),
        }
    }

    /// As `sch_tbf` comes: before a queue of at most `limit_bytes`, first in, first out. Linux has
    /// no default for any of the three.
    pub fn fifo(rate: Rate, burst_bytes: u32, limit_bytes: u64) -> Self {
        Tbf::new(rate, burst_bytes, Box::new(Fifo::new(FifoLimit::Bytes(limit_bytes), None)))
    }

    fn fill(&mut self, now: Time) {
        let span = now.saturating_since(self.filled);
        let tokens = u128::from(span.as_ps()) * u128::from(self.rate.bits_per_s());
        self.tokens = (self.tokens + tokens).min(self.burst);
        self.filled = now;
    }
}

impl Queue for Tbf {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        if u128::from(cx.pool[id].bytes()) * UNITS_PER_BYTE > self.burst {
            return cx.drop(id, Cause::Full);
        }
        self.inner.enqueue(id, cx);
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        self.ready_at = None;
        let Some(bytes) = self.inner.peek(cx) else {
            self.ready_at = self.inner.ready_at();
            return None;
        };
        self.fill(cx.now);
        let cost = u128::from(bytes) * UNITS_PER_BYTE;
        if self.tokens < cost {
            let missing = (cost - self.tokens).div_ceil(u128::from(self.rate.bits_per_s()));
            self.ready_at = Some(cx.now + Duration::from_ps(missing as u64));
            return None;
        }
        self.tokens -= cost;
        self.inner.dequeue(cx)
    }

    fn ready_at(&self) -> Option<Time> {
        self.ready_at
    }

    fn packets(&self) -> usize {
        self.inner.packets()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}
