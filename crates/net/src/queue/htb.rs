//! A rate that is held by borrowing: a packet goes when the bucket is not in debt, whatever its
//! length, and pays afterwards, by the bytes that Linux counts (Linux `sch_htb`, a class that lives on what it borrows).

use lowtail_engine::{Duration, Time};

use super::{Peek, Queue, QueueContext};
use crate::packet::PacketId;
use crate::rate::Rate;

/// A token is a byte; in units of one bit per second and picosecond, as in [`Tbf`](super::tbf::Tbf).
const UNITS_PER_BYTE: i128 = 8 * 1_000_000_000_000;

/// Shapes what another discipline hands out.
///
/// Unlike [`Tbf`](super::tbf::Tbf) it does not ask how long the next packet is. The first packet of a busy time goes at once, and
/// who comes while a packet is paid for waits for the rest of that.
#[derive(Debug)]
pub struct Htb {
    rate: Rate,
    burst: i128,
    tokens: i128,
    filled: Time,
    ready_at: Option<Time>,
    inner: Box<dyn Queue>,
}

impl Htb {
    /// Lets `burst_bytes` pass at once and `rate` in the long run. The bucket is full.
    pub fn new(rate: Rate, burst_bytes: u32, inner: Box<dyn Queue>) -> Self {
        let burst = i128::from(burst_bytes) * UNITS_PER_BYTE;
        Htb { rate, burst, tokens: burst, filled: Time::ZERO, ready_at: None, inner }
    }

    fn fill(&mut self, now: Time) {
        let span = now.saturating_since(self.filled);
        let tokens = i128::from(span.as_ps()) * i128::from(self.rate.bits_per_s());
        self.tokens = (self.tokens + tokens).min(self.burst);
        self.filled = now;
    }

    /// When the debt is paid; `None` if there is none.
    fn paid_at(&mut self, now: Time) -> Option<Time> {
        self.fill(now);
        let debt = u128::try_from(-self.tokens).ok().filter(|debt| *debt > 0)?;
        let span = debt.div_ceil(u128::from(self.rate.bits_per_s()));
        Some(now + Duration::from_ps(span as u64))
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
        self.tokens -= i128::from(cx.pool[id].discipline_bytes()) * UNITS_PER_BYTE;
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
