//! Token bucket: bytes cost tokens, tokens come at a rate, and a bucket holds a burst of them
//! (Linux `sch_tbf`).

use lowtail_engine::Time;

use super::fifo::{Fifo, FifoLimit};
use super::peek::Peeked;
use super::tokens::Tokens;
use super::{Cause, Queue, QueueContext};
use crate::packet::PacketId;
use crate::rate::Rate;

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
    tokens: Tokens,
    ready_at: Option<Time>,
    inner: Peeked,
}

impl Tbf {
    /// Lets `burst_bytes` pass at once and `rate` in the long run. The bucket is full.
    pub fn new(rate: Rate, burst_bytes: u32, inner: Box<dyn Queue>) -> Self {
        let tokens = Tokens::new(rate, burst_bytes);
        Tbf { tokens, ready_at: None, inner: Peeked::new(inner) }
    }

    /// As `sch_tbf` comes: before a queue of at most `limit_bytes`, first in, first out. Linux has
    /// no default for any of the three.
    pub fn fifo(rate: Rate, burst_bytes: u32, limit_bytes: u64) -> Self {
        Tbf::new(rate, burst_bytes, Box::new(Fifo::new(FifoLimit::Bytes(limit_bytes), None)))
    }
}

impl Queue for Tbf {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        if !self.tokens.holds(cx.pool[id].bytes().into()) {
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
        self.ready_at = self.tokens.ready_at(bytes, cx.now);
        if self.ready_at.is_some() {
            return None;
        }
        self.tokens.pay(bytes);
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
