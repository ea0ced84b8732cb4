//! Small first, as a host's queue: what a tagger calls small goes first; small and large are shared
//! among VMs, and within a VM among its flows.

use std::collections::VecDeque;

use super::chain::{Chain, Slab, Slots, flow_key};
use super::codel::{CodelConfig, CodelState};
use super::{Cause, Queue, QueueContext};
use crate::packet::PacketId;

/// What it goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallFirstQueueConfig {
    /// Packets of classes below this are small. 2, our choice: a flow that is new or sparse, and one
    /// that is not quite. They share a band: were the first before the second, a VM that begins
    /// many flows would be before another that sends little by one. It is for the tagger to bound
    /// how many bytes are small: here, small ones starve large ones.
    pub small_classes: u8,
    /// Bytes a turn, of a source among sources and of a flow among its source's. 1514, as
    /// [`FqCodelConfig`](super::fq_codel::FqCodelConfig) has it.
    pub quantum: u32,
    /// Flows that are told apart. 1024, as FQ-CoDel has it; those beyond share a queue with others
    /// of the same source, so that a VM with many flows harms itself only.
    pub flows: usize,
    /// Bytes, of all kinds. 2 MB, our choice: 1.7 ms at 10 Gbit/s.
    pub limit_bytes: u64,
    /// Delay of each flow in each band is kept down by this, if at all. A flow of which nothing
    /// waits is forgotten, and the count of its drops with it.
    pub codel: Option<CodelConfig>,
}

impl Default for SmallFirstQueueConfig {
    fn default() -> Self {
        SmallFirstQueueConfig {
            small_classes: 2,
            quantum: 1514,
            flows: 1024,
            limit_bytes: 2_000_000,
            codel: Some(CodelConfig::default()),
        }
    }
}

/// Small and large.
const BANDS: usize = 2;

/// A flow, whose packets may be in several bands.
#[derive(Debug, Clone, Copy)]
struct Flow {
    key: u64,
    /// Packets of it in all bands.
    waiting: u32,
    /// Bands in which it has turns, even if nothing of it waits there any more.
    listed: u32,
    /// Band of the latest one.
    band: u8,
    /// Shared by flows of a source that found no place of their own.
    shared: bool,
}

/// What of a flow is in a band.
#[derive(Debug, Clone, Copy)]
struct Part {
    waiting: Chain,
    codel: CodelState,
    /// Bytes that it may send in its source's turns.
    deficit: i64,
    /// It has turns.
    listed: bool,
}

/// What of an end that sends is in a band: of a VM, mostly.
#[derive(Debug, Default)]
struct Source {
    /// Flows that take turns.
    turns: VecDeque<u32>,
    deficit: i64,
    listed: bool,
    bytes: u64,
}

/// A band: sources take turns.
#[derive(Debug, Default)]
struct Band {
    turns: VecDeque<u32>,
    /// By the index of the end.
    sources: Vec<Source>,
    bytes: u64,
}

/// Two bands, small before large. In each, deficit round robin among sources, and within a source among
/// flows: whoever fills a band, another source's packet waits for one turn of each.
///
/// **Order.** Packets of a flow leave in the order in which they came. When a flow becomes more
/// urgent while packets of it wait in a later band, the new ones go behind these: their class
/// counts only once the flow has nothing waiting.
///
/// **Room.** When there are too many bytes, the last band in which packets wait loses one: the first
/// of the longest flow of the source with most bytes there. If that band is before the new
/// packet's, the new packet is dropped.
#[derive(Debug)]
pub struct SmallFirstQueue {
    config: SmallFirstQueueConfig,
    bands: [Band; BANDS],
    flows: Vec<Flow>,
    /// Of flow `f` in band `b`: number 2 `f` + `b`.
    parts: Vec<Part>,
    /// Of each source, by the index of the end: its flow that is shared.
    shared: Vec<u32>,
    slots: Slots,
    free: Vec<u32>,
    slab: Slab,
    packets: usize,
    bytes: u64,
}

impl Flow {
    const fn new(key: u64, shared: bool) -> Self {
        Flow { key, waiting: 0, listed: 0, band: 0, shared }
    }
}

impl Part {
    fn new() -> Self {
        Part { waiting: Chain::EMPTY, codel: CodelState::new(), deficit: 0, listed: false }
    }
}

impl SmallFirstQueue {
    /// Empty. A quantum of zero becomes one.
    pub fn new(config: SmallFirstQueueConfig) -> Self {
        let n = config.flows;
        let mut slots = Slots::default();
        // Twice, so that removals do not make it grow.
        slots.reserve(2 * n);
        SmallFirstQueue {
            bands: Default::default(),
            flows: vec![Flow::new(0, false); n],
            parts: vec![Part::new(); n * BANDS],
            shared: Vec::new(),
            slots,
            free: (0..n as u32).rev().collect(),
            slab: Slab::new(),
            packets: 0,
            bytes: 0,
            config: SmallFirstQueueConfig { quantum: config.quantum.max(1), ..config },
        }
    }

    fn know_source(&mut self, source: usize) {
        while self.shared.len() <= source {
            self.shared.push(self.flows.len() as u32);
            self.flows.push(Flow::new(0, true));
            self.parts.extend([Part::new(); BANDS]);
            for band in &mut self.bands {
                band.sources.push(Source::default());
            }
        }
    }

    /// Where packets of the flow `key` go. It gets a place of its own only if nothing waits in the
    /// shared one: then nothing of it can be there, and be overtaken.
    fn place(&mut self, source: usize, key: u64) -> u32 {
        if let Some(own) = self.slots.get(&key) {
            return *own;
        }
        let shared = self.shared[source];
        if self.flows[shared as usize].waiting > 0 {
            return shared;
        }
        let Some(own) = self.free.pop() else { return shared };
        self.slots.insert(key, own);
        self.flows[own as usize] = Flow::new(key, false);
        // Nor does it have to do with what CoDel thought of the last one here.
        self.parts[own as usize * BANDS..][..BANDS].fill(Part::new());
        own
    }

    fn part(&mut self, flow: u32, band: usize) -> &mut Part {
        &mut self.parts[flow as usize * BANDS + band]
    }

    /// A packet of so many bytes has left `band`; whose it was.
    fn gone(&mut self, band: usize, source: usize, flow: u32, bytes: u32) {
        let bytes = u64::from(bytes);
        self.packets -= 1;
        self.bytes -= bytes;
        self.bands[band].bytes -= bytes;
        self.bands[band].sources[source].bytes -= bytes;
        self.flows[flow as usize].waiting -= 1;
    }

    fn forget_if_idle(&mut self, flow: u32) {
        let Flow { key, waiting, listed, shared, .. } = self.flows[flow as usize];
        if waiting == 0 && listed == 0 && !shared {
            self.slots.remove(&key);
            self.free.push(flow);
        }
    }

    /// The longest of `turns`, by what `bytes` says of each.
    fn longest(turns: &VecDeque<u32>, bytes: impl Fn(u32) -> u64) -> Option<u32> {
        let mut longest = (0, None);
        for &one in turns {
            let bytes = bytes(one);
            if bytes > longest.0 {
                longest = (bytes, Some(one));
            }
        }
        longest.1
    }

    /// Drops a packet of the last band in which some wait, if that is not before `band`; whether it
    /// has.
    fn drop_from_longest(&mut self, band: usize, cx: &mut QueueContext<'_>) -> bool {
        let Some(last) = self.bands.iter().rposition(|band| band.bytes > 0) else { return false };
        if last < band {
            return false;
        }
        let found = &self.bands[last];
        let source = Self::longest(&found.turns, |s| found.sources[s as usize].bytes);
        let Some(s) = source.map(|s| s as usize) else { return false };
        let bytes = |flow: u32| self.parts[flow as usize * BANDS + last].waiting.bytes();
        let Some(flow) = Self::longest(&found.sources[s].turns, bytes) else { return false };
        let Part { waiting, codel, .. } = &mut self.parts[flow as usize * BANDS + last];
        let Some((id, bytes)) = waiting.pop(&mut self.slab) else { return false };
        codel.add_drops(1);
        cx.drop(id, Cause::Full);
        self.gone(last, s, flow, bytes);
        true
    }

    /// The flow whose turn it is within a source, and the bytes of its first packet.
    fn flow_in_turn(&mut self, band: usize, source: usize) -> Option<(u32, i64)> {
        loop {
            let flow = *self.bands[band].sources[source].turns.front()?;
            let turns = &mut self.bands[band].sources[source].turns;
            let part = &mut self.parts[flow as usize * BANDS + band];
            let Some(first) = part.waiting.first_bytes(&self.slab) else {
                turns.pop_front();
                part.listed = false;
                self.flows[flow as usize].listed -= 1;
                self.forget_if_idle(flow);
                continue;
            };
            if part.deficit >= i64::from(first) {
                return Some((flow, i64::from(first)));
            }
            part.deficit += i64::from(self.config.quantum);
            turns.rotate_left(1);
        }
    }

    fn dequeue_band(&mut self, band: usize, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        loop {
            let s = *self.bands[band].turns.front()? as usize;
            let Some((flow, first)) = self.flow_in_turn(band, s) else {
                self.bands[band].turns.pop_front();
                self.bands[band].sources[s].listed = false;
                continue;
            };
            let source = &mut self.bands[band].sources[s];
            if source.deficit < first {
                source.deficit += i64::from(self.config.quantum);
                self.bands[band].turns.rotate_left(1);
                continue;
            }
            if let Some(id) = self.pop(band, s, flow, cx) {
                // CoDel may have dropped the first one, and this one be longer.
                let bytes = i64::from(cx.pool[id].bytes());
                self.part(flow, band).deficit -= bytes;
                self.bands[band].sources[s].deficit -= bytes;
                return Some(id);
            }
        }
    }

    fn pop(
        &mut self,
        band: usize,
        s: usize,
        flow: u32,
        cx: &mut QueueContext<'_>,
    ) -> Option<PacketId> {
        let Part { waiting, codel, .. } = &mut self.parts[flow as usize * BANDS + band];
        let Band { sources, bytes: left, .. } = &mut self.bands[band];
        let of = &mut self.flows[flow as usize].waiting;
        let mut pop = |_: &QueueContext<'_>| {
            let (id, bytes) = waiting.pop(&mut self.slab)?;
            *of -= 1;
            self.packets -= 1;
            self.bytes -= u64::from(bytes);
            sources[s].bytes -= u64::from(bytes);
            *left -= u64::from(bytes);
            Some((id, *left))
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
        let (s, key, bytes) = (packet.src.index(), flow_key(packet), packet.bytes());
        let class = u8::from(packet.class >= self.config.small_classes);
        self.know_source(s);
        while self.bytes + u64::from(bytes) > self.config.limit_bytes {
            if !self.drop_from_longest(usize::from(class), cx) {
                return cx.drop(id, Cause::Full);
            }
        }
        let f = self.place(s, key);
        let flow = &mut self.flows[f as usize];
        flow.band = if flow.waiting == 0 { class } else { flow.band.max(class) };
        flow.waiting += 1;
        let band = usize::from(flow.band);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        let part = &mut self.parts[f as usize * BANDS + band];
        part.waiting.push(&mut self.slab, id, bytes);
        let quantum = i64::from(self.config.quantum);
        let Band { turns, sources, bytes: all } = &mut self.bands[band];
        *all += u64::from(bytes);
        let source = &mut sources[s];
        source.bytes += u64::from(bytes);
        if !part.listed {
            (part.listed, part.deficit) = (true, quantum);
            flow.listed += 1;
            source.turns.push_back(f);
        }
        if !source.listed {
            (source.listed, source.deficit) = (true, quantum);
            turns.push_back(s as u32);
        }
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        (0..BANDS).find_map(|band| self.dequeue_band(band, cx))
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
