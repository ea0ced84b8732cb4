//! Deficit round robin: sub-queues take turns, and each may send so many bytes a turn (Shreedhar
//! and Varghese 1995; Linux `sch_drr`, whose sub-queues an operator makes by hand).

use std::collections::VecDeque;

use super::chain::{Chain, Slab, Slots, pair_key};
use super::{Cause, Queue, QueueContext};
use crate::packet::{Packet, PacketId};

/// Which packets share a sub-queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrrKey {
    /// Those of a flow.
    Flow,
    /// Those from one end to another.
    Pair,
    /// Those from one end.
    Source,
}

/// What deficit round robin goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrrConfig {
    /// Which packets share a sub-queue.
    pub key: DrrKey,
    /// Bytes a turn, times the weight. 1514, as `psched_mtu` is for Linux's `sch_drr`. A segment
    /// of 64 KB saves up for 43 turns, in which the others send.
    pub quantum: u32,
    /// Sub-queues. 1024, as FQ-CoDel has; keys beyond share one more, until that is empty.
    pub queues: usize,
    /// Bytes in all of them. 2 MB, our choice: 1.7 ms at 10 Gbit/s. (Linux has no limit here: that
    /// is for the disciplines within.)
    pub limit_bytes: u64,
    /// Weights of sources by the index of their [`End`](crate::packet::End); who has none has 1.
    pub weights: Vec<u32>,
}

impl DrrConfig {
    /// With all else as it is by default.
    pub fn new(key: DrrKey) -> Self {
        DrrConfig { key, quantum: 1514, queues: 1024, limit_bytes: 2_000_000, weights: Vec::new() }
    }
}

#[derive(Debug, Clone, Copy)]
struct Sub {
    waiting: Chain,
    key: u64,
    /// Bytes it may send.
    deficit: u64,
    /// Bytes a turn.
    quantum: u64,
    /// It has its turns, even if nothing of it waits any more.
    listed: bool,
}

/// Sub-queues that take turns. When there are too many bytes, the first packet of the longest one
/// is dropped, so that who floods loses, and learns of it soon.
#[derive(Debug)]
pub struct Drr {
    config: DrrConfig,
    /// The last one is for keys that have none of their own.
    subs: Vec<Sub>,
    slots: Slots,
    free: Vec<u32>,
    turns: VecDeque<u32>,
    slab: Slab,
    packets: usize,
    bytes: u64,
}

impl Drr {
    /// Empty. A quantum of zero becomes one.
    pub fn new(config: DrrConfig) -> Self {
        let n = config.queues;
        let sub = Sub { waiting: Chain::EMPTY, key: 0, deficit: 0, quantum: 0, listed: false };
        let mut slots = Slots::default();
        // Twice, so that removals do not make it grow.
        slots.reserve(2 * n);
        Drr {
            subs: vec![sub; n + 1],
            slots,
            free: (0..n as u32).rev().collect(),
            turns: VecDeque::with_capacity(n + 1),
            slab: Slab::new(),
            packets: 0,
            bytes: 0,
            config: DrrConfig { quantum: config.quantum.max(1), ..config },
        }
    }

    fn quantum_of(&self, packet: &Packet) -> u64 {
        let weight = self.config.weights.get(packet.src.index()).copied().unwrap_or(1).max(1);
        u64::from(self.config.quantum) * u64::from(weight)
    }

    /// The sub-queue of `key`. A key gets one of its own only if the shared one is empty: then
    /// none of its packets can be in that, and be overtaken.
    fn sub_of(&mut self, key: u64) -> u32 {
        if let Some(&own) = self.slots.get(&key) {
            return own;
        }
        let shared = self.subs.len() - 1;
        if !self.subs[shared].waiting.is_empty() {
            return shared as u32;
        }
        let Some(own) = self.free.pop() else { return shared as u32 };
        self.slots.insert(key, own);
        self.subs[own as usize].key = key;
        own
    }

    /// The sub-queue whose turn it is has nothing: no more turns.
    fn leave(&mut self) {
        let Some(s) = self.turns.pop_front() else { return };
        let shared = self.subs.len() - 1;
        let sub = &mut self.subs[s as usize];
        sub.listed = false;
        if s as usize != shared {
            self.slots.remove(&sub.key);
            self.free.push(s);
        }
    }

    fn drop_from_longest(&mut self, cx: &mut QueueContext<'_>) {
        let mut longest = (0, None);
        for &s in &self.turns {
            let bytes = self.subs[s as usize].waiting.bytes();
            if bytes > longest.0 {
                longest = (bytes, Some(s));
            }
        }
        let Some(s) = longest.1 else { return };
        if let Some((id, bytes)) = self.subs[s as usize].waiting.pop(&mut self.slab) {
            self.packets -= 1;
            self.bytes -= u64::from(bytes);
            cx.drop(id, Cause::Full);
        }
    }
}

impl Queue for Drr {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let packet = &cx.pool[id];
        let key = match self.config.key {
            DrrKey::Flow => u64::from(packet.flow.0),
            DrrKey::Pair => pair_key(packet),
            DrrKey::Source => u64::from(packet.src.0),
        };
        let quantum = self.quantum_of(packet);
        let s = self.sub_of(key);
        let shared = s as usize == self.subs.len() - 1;
        let sub = &mut self.subs[s as usize];
        sub.waiting.push(&mut self.slab, id, packet.bytes());
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        if !sub.listed {
            sub.listed = true;
            sub.quantum = if shared { u64::from(self.config.quantum) } else { quantum };
            sub.deficit = sub.quantum;
            self.turns.push_back(s);
        }
        while self.bytes > self.config.limit_bytes {
            self.drop_from_longest(cx);
        }
    }

    fn dequeue(&mut self, _: &mut QueueContext<'_>) -> Option<PacketId> {
        loop {
            let sub = &mut self.subs[*self.turns.front()? as usize];
            let Some(bytes) = sub.waiting.first_bytes(&self.slab) else {
                self.leave();
                continue;
            };
            if sub.deficit < u64::from(bytes) {
                sub.deficit += sub.quantum;
                self.turns.rotate_left(1);
                continue;
            }
            sub.deficit -= u64::from(bytes);
            let (id, _) = sub.waiting.pop(&mut self.slab)?;
            self.packets -= 1;
            self.bytes -= u64::from(bytes);
            if sub.waiting.is_empty() {
                self.leave();
            }
            return Some(id);
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
