//! Tagger: says how urgent a packet is; the discipline behind it goes by that.

use lowtail_engine::Time;

use super::{Peek, Queue, QueueContext};
use crate::packet::{End, Packet, PacketId};

/// Who says how urgent a packet is.
pub trait Classify: Send + std::fmt::Debug {
    /// The class of `packet`, which enters now; 0 is the most urgent.
    fn classify(&mut self, packet: &Packet, now: Time) -> u8;
}

impl Classify for Box<dyn Classify> {
    fn classify(&mut self, packet: &Packet, now: Time) -> u8 {
        (**self).classify(packet, now)
    }
}

/// Each source has its class for ever, as an operator would write into a firewall's mangle table.
#[derive(Debug, Clone)]
pub struct BySource {
    classes: Vec<u8>,
    others: u8,
}

impl BySource {
    /// All have the class `others`.
    pub fn new(others: u8) -> Self {
        BySource { classes: Vec::new(), others }
    }

    /// `source` has `class`.
    #[must_use]
    pub fn with(mut self, source: End, class: u8) -> Self {
        let most = self.classes.len().max(source.index() + 1);
        self.classes.resize(most, self.others);
        self.classes[source.index()] = class;
        self
    }
}

impl Classify for BySource {
    fn classify(&mut self, packet: &Packet, _: Time) -> u8 {
        self.classes.get(packet.src.index()).copied().unwrap_or(self.others)
    }
}

/// Sets the class of each packet, then hands it on.
#[derive(Debug)]
pub struct Tag<C> {
    classify: C,
    inner: Box<dyn Queue>,
}

impl<C: Classify> Tag<C> {
    /// `classify` before `inner`.
    pub fn new(classify: C, inner: Box<dyn Queue>) -> Self {
        Tag { classify, inner }
    }

    /// Who says it.
    pub fn classify(&self) -> &C {
        &self.classify
    }
}

impl<C: Classify> Queue for Tag<C> {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let class = self.classify.classify(&cx.pool[id], cx.now);
        cx.pool[id].class = class;
        self.inner.enqueue(id, cx);
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        self.inner.dequeue(cx)
    }

    fn peek(&mut self, cx: &mut QueueContext<'_>) -> Peek {
        self.inner.peek(cx)
    }

    fn ready_at(&self) -> Option<Time> {
        self.inner.ready_at()
    }

    fn packets(&self) -> usize {
        self.inner.packets()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}
