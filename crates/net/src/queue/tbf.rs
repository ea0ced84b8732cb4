//! Token bucket: bytes cost tokens, tokens come at a rate, and a bucket holds a burst of them
//! (Linux `sch_tbf`).

use lowtail_engine::{Duration, Time};

use super::fifo::{Fifo, FifoLimit};
use super::{Cause, Queue, QueueContext};
use crate::packet::PacketId;
use crate::rate::Rate;

/// A token is a byte; in units of one bit per second and picosecond it is a whole number at any
/// rate and any time, so that no rounding adds up.
const UNITS_PER_BYTE: u128 = 8 * 1_000_000_000_000;

/// Shapes what another discipline hands out.
///
/// Like `sch_tbf`, it takes the first packet out of the discipline within to see how long it is,
/// and holds it until there are tokens: a more urgent one that comes in between waits behind it,
/// for a packet's time at the rate; with a segment of 64 KB at 100 Mbit/s that is 5 ms.
///
/// A packet longer than the burst could never pass and is dropped (Linux cuts such a segment if
/// its frames would fit; put a [`Split`](super::split::Split) before it).
#[derive(Debug)]
pub struct Tbf {
    rate: Rate,
    burst: u128,
    tokens: u128,
    filled: Time,
    held: Option<PacketId>,
    held_bytes: u64,
    ready_at: Option<Time>,
    inner: Box<dyn Queue>,
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
            held: None,
            held_bytes: 0,
            ready_at: None,
            inner,
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
        if self.held.is_none() {
            self.held = self.inner.dequeue(cx);
            self.held_bytes = self.held.map_or(0, |id| u64::from(cx.pool[id].bytes()));
        }
        let Some(id) = self.held else {
            self.ready_at = self.inner.ready_at();
            return None;
        };
        self.fill(cx.now);
        let cost = u128::from(self.held_bytes) * UNITS_PER_BYTE;
        if self.tokens < cost {
            let missing = (cost - self.tokens).div_ceil(u128::from(self.rate.bits_per_s()));
            self.ready_at = Some(cx.now + Duration::from_ps(missing as u64));
            return None;
        }
        self.tokens -= cost;
        self.held = None;
        self.held_bytes = 0;
        Some(id)
    }

    fn ready_at(&self) -> Option<Time> {
        self.ready_at
    }

    fn packets(&self) -> usize {
        self.inner.packets() + usize::from(self.held.is_some())
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes() + self.held_bytes
    }
}
