//! What a shaper does to the discipline within: it looks at the packet that would be next, and takes
//! it when there are tokens.

use lowtail_engine::Time;

use super::{Peek, Queue, QueueContext};
use crate::packet::PacketId;

/// A discipline whose next packet can be looked at. One that has to take it out for that
/// ([`Peek::Takes`]) has it held here, before all that come later (Linux `qdisc_peek_dequeued`).
#[derive(Debug)]
pub(super) struct Peeked {
    inner: Box<dyn Queue>,
    held: Option<(PacketId, u64)>,
}

impl Peeked {
    pub(super) fn new(inner: Box<dyn Queue>) -> Self {
        Peeked { inner, held: None }
    }

    /// Bytes of the packet that [`dequeue`](Self::dequeue) gives if it is asked now.
    pub(super) fn peek(&mut self, cx: &mut QueueContext<'_>) -> Option<u64> {
        if let Some((_, bytes)) = self.held {
            return Some(bytes);
        }
        match self.inner.peek(cx) {
            Peek::Next(bytes) => Some(bytes),
            Peek::Nothing => None,
            Peek::Takes => {
                let id = self.inner.dequeue(cx)?;
                let bytes = u64::from(cx.pool[id].bytes());
                self.held = Some((id, bytes));
                Some(bytes)
            }
        }
    }

    pub(super) fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        self.inner.enqueue(id, cx);
    }

    pub(super) fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        match self.held.take() {
            Some((id, _)) => Some(id),
            None => self.inner.dequeue(cx),
        }
    }

    pub(super) fn ready_at(&self) -> Option<Time> {
        self.inner.ready_at()
    }

    pub(super) fn packets(&self) -> usize {
        self.inner.packets() + usize::from(self.held.is_some())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.inner.bytes() + self.held.map_or(0, |(_, bytes)| bytes)
    }
}
