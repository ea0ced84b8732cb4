//! First in, first out: limited by bytes or by packets (`bfifo`, `pfifo`), with a threshold above which
//! packets are marked (ECN), as DCTCP wants it.

use std::collections::VecDeque;

use super::{Cause, Peek, Queue, QueueContext};
use crate::packet::{Ecn, PacketId};

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FifoLimit {
    /// So many bytes.
    Bytes(u64),
    /// So many packets, however long.
    Packets(usize),
}

/// First in, first out.
#[derive(Debug)]
pub struct Fifo {
    limit: FifoLimit,
    mark_above: Option<u64>,
    waiting: VecDeque<PacketId>,
    bytes: u64,
}

impl Fifo {
    /// Empty. Packets that find more than `mark_above` bytes before them are marked, if they are
    /// capable.
    pub fn new(limit: FifoLimit, mark_above: Option<u64>) -> Self {
        Fifo { limit, mark_above, waiting: VecDeque::new(), bytes: 0 }
    }
}

impl Queue for Fifo {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let packet = &mut cx.pool[id];
        let bytes = u64::from(packet.bytes());
        let room = match self.limit {
            FifoLimit::Bytes(most) => self.bytes + bytes <= most,
            FifoLimit::Packets(most) => self.waiting.len() < most,
        };
        if !room {
            return cx.drop(id, Cause::Full);
        }
        if self.mark_above.is_some_and(|most| self.bytes > most) && packet.ecn == Ecn::Capable {
            packet.ecn = Ecn::Marked;
        }
        self.bytes += bytes;
        self.waiting.push_back(id);
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        let id = self.waiting.pop_front()?;
        self.bytes -= u64::from(cx.pool[id].bytes());
        Some(id)
    }

    fn peek(&mut self, cx: &mut QueueContext<'_>) -> Peek {
        let first = self.waiting.front();
        first.map_or(Peek::Nothing, |id| Peek::Next(u64::from(cx.pool[*id].bytes())))
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
