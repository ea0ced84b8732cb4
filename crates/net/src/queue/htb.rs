//! A rate that is held by borrowing: a packet goes when the bucket is not in debt, whatever its
//! length, and pays afterwards, by the bytes that Linux counts (Linux `sch_htb`, a class that lives on what it borrows).

use lowtail_engine::Time;

use super::tokens::Tokens;
use super::{Peek, Queue, QueueContext};
use crate::packet::PacketId;
use crate::rate::Rate;

/// Shapes what another discipline hands out.
///
/// Unlike [`Tbf`](super::tbf::Tbf) it does not ask how long the next packet is. The first packet of a busy time goes at once, and
/// who comes while a packet is paid for waits for the rest of that.
#[derive(Debug)]
pub struct Htb {
    tokens: Tokens,
    ready_at: Option<Time>,
    inner: Box<dyn Queue>,
}

impl Htb {
    /// Lets `burst_bytes` pass at once and `rate` in the long run. The bucket is full.
    pub fn new(rate: Rate, burst_bytes: u32, inner: Box<dyn Queue>) -> Self {
        Htb { tokens: Tokens::new(rate, burst_bytes), ready_at: None, inner }
    }

    /// When the debt is paid; `None` if there is none.
    fn paid_at(&mut self, now: Time) -> Option<Time> {
        self.tokens.ready_at(0, now)
    }
}

impl Queue for Htb {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        self.inner.enqueue(id, cx);
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        self.ready_at = None;
        if self.inner.packets() == 0 {
            return None;
        }
        self.ready_at = self.paid_at(cx.now);
        if self.ready_at.is_some() {
            return None;
        }
        let Some(id) = self.inner.dequeue(cx) else {
            self.ready_at = self.inner.ready_at();
            return None;
        };
        self.tokens.pay(cx.pool[id].discipline_bytes().into());
        Some(id)
    }

    fn peek(&mut self, cx: &mut QueueContext<'_>) -> Peek {
        match self.paid_at(cx.now) {
            Some(_) => Peek::Nothing,
            None => self.inner.peek(cx),
        }
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
