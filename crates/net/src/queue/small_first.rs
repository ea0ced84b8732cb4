//! Small first, as a host's queue: what a tagger calls small goes first; the rest is shared among
//! VMs, and within a VM among those it talks to.

use std::collections::VecDeque;

use super::chain::{Chain, Slab, Slots, pair_key};
use super::codel::{CodelConfig, CodelState};
use super::{Cause, Queue, QueueContext};
use crate::packet::PacketId;

/// What it goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallFirstQueueConfig {
    /// Packets of classes below this are small, 0 before 1 and so on. 2, our choice: a pair that
    /// is new or sparse, and one that is not quite. It is for the tagger to bound how many bytes
    /// are small: here, small ones starve large ones.
    pub small_classes: u8,
    /// Bytes a turn, of a source among sources and of a pair among its source's. 1514, as
    /// [`FqCodelConfig`](super::fq_codel::FqCodelConfig) has it.
    pub quantum: u32,
    /// Pairs that are told apart. 1024, as FQ-CoDel tells flows apart; those beyond share a queue
    /// with others of the same source, so that a VM with many peers harms itself only.
    pub pairs: usize,
    /// Bytes, of all kinds. 2 MB, our choice: 1.7 ms at 10 Gbit/s.
    pub limit_bytes: u64,
    /// Delay of each large pair is kept down by this, if at all. A pair of which nothing waits is
    /// forgotten, and the count of its drops with it.
    pub codel: Option<CodelConfig>,
}

impl Default for SmallFirstQueueConfig {
    fn default() -> Self {
        SmallFirstQueueConfig {
            small_classes: 2,
            quantum: 1514,
            pairs: 1024,
            limit_bytes: 2_000_000,
            codel: Some(CodelConfig::default()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    key: u64,
    /// Packets of it in all bands.
    waiting: u32,
    /// Band of the latest one.
    band: u8,
    large: Chain,
    codel: CodelState,
    /// Bytes that it may send in its source's turns.
    deficit: i64,
    /// It has turns, even if nothing large of it waits any more.
    listed: bool,
    /// Shared by pairs of a source that found no place of their own.
    shared: bool,
}

/// An end that sends: a VM, mostly.
#[derive(Debug)]
struct Source {
    /// Large pairs that take turns.
    turns: VecDeque<u32>,
    deficit: i64,
    listed: bool,
    bytes: u64,
    /// Index of the pair that is shared.
    shared: u32,
}

/// Small bands in strict order, first in, first out each; then large ones by deficit round robin
/// among sources, and within a source among pairs of (source, destination).
///
/// **Order.** Packets of a pair leave in the order in which they came. When a pair becomes more
/// urgent while packets of it wait in a later band, the new ones go behind these: their class
/// counts only once the pair has nothing waiting.
///
/// **Room.** When there are too many bytes, the longest pair of the source with most large bytes
/// loses its first packet; if nothing large waits, the new packet is dropped.
#[derive(Debug)]
pub struct SmallFirstQueue {
    config: SmallFirstQueueConfig,
    small: Vec<Chain>,
    pairs: Vec<Pair>,
    slots: Slots,
    free: Vec<u32>,
    /// By the index of the end.
    sources: Vec<Source>,
    turns: VecDeque<u32>,
    slab: Slab,
    packets: usize,
    bytes: u64,
    large_bytes: u64,
}

impl Pair {
    fn new(shared: bool) -> Self {
        Pair {
            key: 0,
            waiting: 0,
            band: 0,
            large: Chain::EMPTY,
            codel: CodelState::new(),
            deficit: 0,
            listed: false,
            shared,
        }
    }
}

impl SmallFirstQueue {
    /// Empty. A quantum of zero becomes one.
    pub fn new(config: SmallFirstQueueConfig) -> Self {
        let n = config.pairs;
        let mut slots = Slots::default();
        // Twice, so that removals do not make it grow.
        slots.reserve(2 * n);
        SmallFirstQueue {
            small: vec![Chain::EMPTY; usize::from(config.small_classes)],
            pairs: vec![Pair::new(false); n],
            slots,
            free: (0..n as u32).rev().collect(),
            sources: Vec::new(),
            turns: VecDeque::new(),
            slab: Slab::new(),
            packets: 0,
            bytes: 0,
            large_bytes: 0,
            config: SmallFirstQueueConfig { quantum: config.quantum.max(1), ..config },
        }
    }

    fn know_source(&mut self, source: usize) {
        while self.sources.len() <= source {
            let shared = self.pairs.len() as u32;
            self.pairs.push(Pair::new(true));
            self.sources.push(Source {
                turns: VecDeque::new(),
                deficit: 0,
                listed: false,
                bytes: 0,
                shared,
            });
        }
    }

    /// Where packets of the pair are that wait, if there are any.
    fn pair_of(&self, source: usize, key: u64) -> u32 {
        self.slots.get(&key).copied().unwrap_or(self.sources[source].shared)
    }

    /// The same for a packet that comes. A pair gets a place of its own only if nothing waits in
    /// the shared one: then nothing of it can be there, and be overtaken.
    fn place(&mut self, source: usize, key: u64) -> u32 {
        let found = self.pair_of(source, key);
        let pair = &self.pairs[found as usize];
        if !pair.shared || pair.waiting > 0 {
            return found;
        }
        let Some(own) = self.free.pop() else { return found };
        self.slots.insert(key, own);
        self.pairs[own as usize] = Pair { key, ..Pair::new(false) };
        own
    }

    /// One of the pair's packets is gone.
    fn gone(&mut self, p: u32, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        self.pairs[p as usize].waiting -= 1;
        self.forget_if_idle(p);
    }

    fn forget_if_idle(&mut self, p: u32) {
        let pair = &self.pairs[p as usize];
        if pair.waiting == 0 && !pair.listed && !pair.shared {
            self.slots.remove(&pair.key);
            self.free.push(p);
        }
    }

    fn drop_from_longest(&mut self, cx: &mut QueueContext<'_>) {
        let mut source = (0, None);
        for &s in &self.turns {
            let bytes = self.sources[s as usize].bytes;
            if bytes > source.0 {
                source = (bytes, Some(s as usize));
            }
        }
        let Some(s) = source.1 else { return };
        let mut pair = (0, None);
        for &p in &self.sources[s].turns {
            let bytes = self.pairs[p as usize].large.bytes();
            if bytes > pair.0 {
                pair = (bytes, Some(p));
            }
        }
        let Some(p) = pair.1 else { return };
        let Pair { large, codel, .. } = &mut self.pairs[p as usize];
        if let Some((id, bytes)) = large.pop(&mut self.slab) {
            codel.add_drops(1);
            cx.drop(id, Cause::Full);
            self.sources[s].bytes -= u64::from(bytes);
            self.large_bytes -= u64::from(bytes);
            self.gone(p, bytes);
        }
    }

    /// The pair whose turn it is within `source`, and the bytes of its first packet.
    fn pair_in_turn(&mut self, source: usize) -> Option<(u32, i64)> {
        loop {
            let turns = &mut self.sources[source].turns;
            let p = *turns.front()?;
            let pair = &mut self.pairs[p as usize];
            let Some(first) = pair.large.first_bytes(&self.slab) else {
                turns.pop_front();
                pair.listed = false;
                self.forget_if_idle(p);
                continue;
            };
            if pair.deficit >= i64::from(first) {
                return Some((p, i64::from(first)));
            }
            pair.deficit += i64::from(self.config.quantum);
            turns.rotate_left(1);
        }
    }

    fn dequeue_large(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        loop {
            let s = *self.turns.front()? as usize;
            let Some((p, first)) = self.pair_in_turn(s) else {
                self.turns.pop_front();
                self.sources[s].listed = false;
                continue;
            };
            if self.sources[s].deficit < first {
                self.sources[s].deficit += i64::from(self.config.quantum);
                self.turns.rotate_left(1);
                continue;
            }
            if let Some(id) = self.pop_large(s, p, cx) {
                // CoDel may have dropped the first one, and this one be longer.
                let bytes = i64::from(cx.pool[id].bytes());
                self.pairs[p as usize].deficit -= bytes;
                self.sources[s].deficit -= bytes;
                return Some(id);
            }
        }
    }

    fn pop_large(&mut self, s: usize, p: u32, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        let Pair { large, codel, waiting, .. } = &mut self.pairs[p as usize];
        let mut pop = |_: &QueueContext<'_>| {
            let (id, bytes) = large.pop(&mut self.slab)?;
            *waiting -= 1;
            self.packets -= 1;
            self.bytes -= u64::from(bytes);
            self.sources[s].bytes -= u64::from(bytes);
            self.large_bytes -= u64::from(bytes);
            Some((id, self.large_bytes))
        };
        match &self.config.codel {
            Some(config) => codel.dequeue(config, cx, pop),
            None => pop(cx).map(|(id, _)| id),
        }
    }
}

impl Queue for SmallFirstQueue {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let packet = &cx.pool[id];
        let (source, key, bytes) = (packet.src.index(), pair_key(packet), packet.bytes());
        let class = packet.class.min(self.config.small_classes);
        self.know_source(source);
        while self.bytes + u64::from(bytes) > self.config.limit_bytes {
            if self.large_bytes == 0 {
                return cx.drop(id, Cause::Full);
            }
            self.drop_from_longest(cx);
        }
        let p = self.place(source, key);
        let pair = &mut self.pairs[p as usize];
        pair.band = if pair.waiting == 0 { class } else { pair.band.max(class) };
        pair.waiting += 1;
        self.packets += 1;
        self.bytes += u64::from(bytes);
        if let Some(band) = self.small.get_mut(usize::from(pair.band)) {
            return band.push(&mut self.slab, id, bytes);
        }
        pair.large.push(&mut self.slab, id, bytes);
        let sender = &mut self.sources[source];
        sender.bytes += u64::from(bytes);
        self.large_bytes += u64::from(bytes);
        if !pair.listed {
            pair.listed = true;
            pair.deficit = i64::from(self.config.quantum);
            sender.turns.push_back(p);
        }
        if !sender.listed {
            sender.listed = true;
            sender.deficit = i64::from(self.config.quantum);
            self.turns.push_back(source as u32);
        }
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        for band in &mut self.small {
            if let Some((id, bytes)) = band.pop(&mut self.slab) {
                let packet = &cx.pool[id];
                let p = self.pair_of(packet.src.index(), pair_key(packet));
                self.gone(p, bytes);
                return Some(id);
            }
        }
        self.dequeue_large(cx)
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
