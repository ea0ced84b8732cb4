//! Ports: a transmitter with what waits for it, and the link behind it.
//!
//! A plain port is first in, first out. When a packet comes, it is known when it will have been
//! sent, so that its arrival at the other end is the only event of the hop. A port with a
//! discipline asks that whenever the transmitter is free; one with a NIC in between also keeps a
//! ring, limited in bytes, that the discipline cannot look into, and cuts long segments into
//! frames as it sends them.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;

use lowtail_engine::prefetch::prefetch;
use lowtail_engine::{Duration, Time};

use crate::bql::Dql;
use crate::packet::{Ecn, FlowId, Packet, PacketId, Pool};
use crate::queue::{Cause, Queue, QueueContext};
use crate::rate::Rate;
use crate::tcp::FLAG_SMALL_QUEUE;

/// Names a port of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// As an index into tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A link: how fast, how far, and how much may wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkConfig {
    /// Bits per second.
    pub rate: Rate,
    /// From the last bit sent to the last bit there: the way, and what the host at its end
    /// takes to forward.
    pub delay: Duration,
    /// Bytes on the wire that may wait in a plain port.
    pub buffer_bytes: u64,
    /// A plain port marks packets (ECN) that find more than this before them.
    pub mark_bytes: Option<u64>,
    /// Of a billion packets so many are lost on the way, at random.
    pub loss_per_billion: u32,
}

/// A NIC between a discipline and the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicConfig {
    /// Descriptors of its transmit ring; a segment takes one for each page and one more.
    pub ring: u32,
    /// The bytes in the ring are limited (BQL).
    pub bql: bool,
    /// Segments leave whole, as over a virtual link, instead of frame by frame.
    pub whole: bool,
}

/// Bytes of a page: what a descriptor points to at most.
const PAGE_BYTES: u32 = 4096;

/// Among how many kinds of links, the latest ones, an equal one is looked for.
const KINDS: usize = 16;

/// A NIC at work.
#[derive(Debug)]
struct Nic {
    config: NicConfig,
    ring: VecDeque<PacketId>,
    descriptors: u32,
    limit: Option<Dql>,
    /// Bytes and descriptors of what is being sent.
    sending: (u32, u32),
}

/// What waits otherwise than first come, first served.
#[derive(Debug)]
struct TxPath {
    queue: Box<dyn Queue>,
    nic: Option<Nic>,
    /// When the transmitter's next event is, if one is under way.
    waking: Time,
    /// What is being sent, if its sender wants to know when it has left.
    leaving: Option<TxCompletion>,
    /// When the packet came that is being sent, or was sent last.
    entered: Time,
}

/// So much of a flow has left the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxCompletion {
    /// Whose.
    pub flow: FlowId,
    /// Its payload.
    pub bytes: u32,
}

/// What a port has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets (frames) sent.
    pub packets: u64,
    /// Bytes of time on the wire.
    pub wire_bytes: u64,
    /// Packets marked by a plain port.
    pub marked: u64,
}

/// A link, and what follows from its numbers.
#[derive(Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    /// What the buffer holds, as time.
    buffer: Duration,
    mark: Duration,
}

/// A port: one cache line. Thousands of them are in use at a time, whereas links are of a few
/// kinds, the numbers of which stay in the cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// When the transmitter will have sent all that a plain port has, or what it is sending.
    free_at: Time,
    link: Arc<Link>,
    path: Option<Box<TxPath>>,
    /// On the link: a list through the pool.
    flying: u32,
    first: PacketId,
    last: PacketId,
    /// Where to note what is sent: that number less one.
    pub(crate) tap: Option<NonZero<u32>>,
    /// What it has done.
    pub stats: PortStats,
}

/// What to do after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortActions {
    /// The first packet on the link arrives then; it was not known before.
    pub arrive: Option<Time>,
    /// Call [`Port::wake`] then.
    pub wake: Option<Time>,
}

impl Port {
    /// At rest, first in, first out.
    pub fn plain(link: LinkConfig) -> Self {
        let mark = link.mark_bytes.map_or(Duration::MAX, |bytes| link.rate.span(bytes));
        let buffer = link.rate.span(link.buffer_bytes);
        Port {
            free_at: Time::ZERO,
            link: Arc::new(Link { config: link, buffer, mark }),
            path: None,
            flying: 0,
            first: PacketId::NONE,
            last: PacketId::NONE,
            tap: None,
            stats: PortStats::default(),
        }
    }

    /// Uses one of the `known` links if its own is the same, else adds that to them.
    pub(crate) fn share_link(&mut self, known: &mut Vec<Arc<Link>>) {
        match known.iter().rev().take(KINDS).find(|link| link.config == self.link.config) {
            Some(link) => self.link = Arc::clone(link),
            None => known.push(Arc::clone(&self.link)),
        }
    }

    /// At rest, with a discipline and perhaps a NIC.
    pub fn queued(link: LinkConfig, queue: Box<dyn Queue>, nic: Option<NicConfig>) -> Self {
        let nic = nic.map(|config| Nic {
            config,
            ring: VecDeque::with_capacity(config.ring as usize),
            descriptors: 0,
            limit: config.bql.then(|| Dql::new(Time::ZERO)),
            sending: (0, 0),
        });
        let path = TxPath { queue, nic, waking: Time::NEVER, leaving: None, entered: Time::ZERO };
        Port { path: Some(Box::new(path)), ..Port::plain(link) }
    }

    /// Its link.
    pub fn link(&self) -> &LinkConfig {
        &self.link.config
    }

    /// Bytes that wait at `now`: on the wire in a plain port, else in the discipline. What is in the ring
    /// of a NIC waits no more.
    pub fn backlog(&self, now: Time) -> u64 {
        match &self.path {
            None => self.link.config.rate.bytes(self.free_at.saturating_since(now)),
            Some(path) => path.queue.bytes(),
        }
    }

    /// When the transmitter will have sent all that a plain port has, or what it is sending.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Whether it is first in, first out, with nothing to ask.
    pub(crate) fn is_plain(&self) -> bool {
        self.path.is_none()
    }

    /// Bytes in the ring of its NIC, without what is being sent.
    pub(crate) fn ring_bytes(&self, pool: &Pool) -> u64 {
        let ring = self.path.iter().filter_map(|path| path.nic.as_ref()).flat_map(|nic| &nic.ring);
        ring.map(|&id| u64::from(pool[id].bytes())).sum()
    }

    /// Whether there is a ring behind the discipline.
    pub fn has_ring(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.nic.is_some())
    }

    /// Packets in discipline and ring, or on the link.
    pub fn packets(&self) -> usize {
        self.waiting() + self.flying as usize
    }

    /// Packets in discipline and ring.
    pub(crate) fn waiting(&self) -> usize {
        let path = self.path.as_ref();
        path.map_or(0, |path| path.queue.packets() + path.ring_packets())
    }

    /// With a discipline: when the packet came that is being sent, or was sent last.
    pub(crate) fn entered(&self) -> Time {
        self.path.as_ref().map_or(Time::ZERO, |path| path.entered)
    }

    /// Puts `id` on the link; it has all been sent at `sent`, what is before it at `earlier`.
    #[inline]
    fn fly(&mut self, id: PacketId, earlier: Time, sent: Time, pool: &mut Pool) -> Option<Time> {
        let at = sent + self.link.config.delay;
        pool[id].queued = at;
        let before = std::mem::replace(&mut self.last, id);
        self.flying += 1;
        if self.flying > 1 {
            pool.set_behind(before, id, sent.since(earlier));
            return None;
        }
        self.first = id;
        Some(at)
    }

    /// Takes `id` in.
    #[inline]
    pub fn enqueue(
        &mut self,
        id: PacketId,
        cx: &mut QueueContext<'_>,
        sent: &mut Vec<TxCompletion>,
    ) -> PortActions {
        if self.path.is_some() {
            return self.enqueue_path(id, cx, sent);
        }
        let packet = &mut cx.pool[id];
        let bytes = packet.wire_bytes();
        let span = self.link.config.rate.span(u64::from(bytes));
        let start = self.free_at.max(cx.now);
        let wait = start.since(cx.now);
        if wait + span > self.link.buffer {
            cx.drop(id, Cause::Full);
            return PortActions::default();
        }
        if wait > self.link.mark && packet.ecn == Ecn::Capable {
            packet.ecn = Ecn::Marked;
            self.stats.marked += 1;
        }
        self.stats.packets += 1;
        self.stats.wire_bytes += u64::from(bytes);
        let earlier = std::mem::replace(&mut self.free_at, start + span);
        PortActions { arrive: self.fly(id, earlier, start + span, cx.pool), wake: None }
    }

    /// The packet that arrives now, and when the next one will.
    #[inline]
    pub fn arrive(&mut self, now: Time, pool: &Pool) -> Option<(PacketId, Option<Time>)> {
        let id = self.first()?;
        self.flying -= 1;
        if self.flying == 0 {
            return Some((id, None));
        }
        let (next, at) = pool.follower(id, now);
        self.first = next;
        Some((id, Some(at)))
    }

    /// The packet that arrives next.
    #[inline]
    pub(crate) fn first(&self) -> Option<PacketId> {
        (self.flying > 0).then_some(self.first)
    }

    /// The packet that was put on the link last, if it is there still.
    #[inline]
    pub(crate) fn last(&self) -> Option<PacketId> {
        (self.flying > 0).then_some(self.last)
    }

    /// Asks for the port, which is about to be used.
    #[inline(always)]
    pub(crate) fn fetch(&self) {
        prefetch(self);
    }

    fn enqueue_path(
        &mut self,
        id: PacketId,
        cx: &mut QueueContext<'_>,
        sent: &mut Vec<TxCompletion>,
    ) -> PortActions {
        let Some(path) = &mut self.path else { return PortActions::default() };
        cx.pool[id].queued = cx.now;
        path.queue.enqueue(id, cx);
        self.serve(cx, sent)
    }

    /// The time that [`PortActions::wake`] named has come. What has left the transmitter by now, and is
    /// to be told, is put into `sent`.
    pub fn wake(&mut self, cx: &mut QueueContext<'_>, sent: &mut Vec<TxCompletion>) -> PortActions {
        let Some(path) = &mut self.path else { return PortActions::default() };
        if cx.now >= path.waking {
            path.waking = Time::NEVER;
        }
        self.serve(cx, sent)
    }

    /// Sends if the transmitter is free, and fills the ring.
    fn serve(&mut self, cx: &mut QueueContext<'_>, sent: &mut Vec<TxCompletion>) -> PortActions {
        let mut actions = PortActions::default();
        let Some(mut path) = self.path.take() else { return actions };
        if self.free_at <= cx.now {
            path.completed(cx.now, sent);
            path.fill(cx);
            if let Some(id) = path.next(cx) {
                actions.arrive = self.transmit(&mut path, id, cx);
                // There may be room again.
                path.fill(cx);
            }
        } else {
            path.fill(cx);
        }
        let wake = if self.free_at > cx.now {
            // Even if nothing waits it has to be told what has left.
            let tell = path.nic.is_some() || path.leaving.is_some();
            (tell || path.queue.packets() > 0).then_some(self.free_at)
        } else {
            path.queue.ready_at().map(|at| at.max(cx.now))
        };
        if let Some(at) = wake.filter(|&at| at < path.waking) {
            path.waking = at;
            actions.wake = Some(at);
        }
        self.path = Some(path);
        actions
    }

    /// Sends `id` from now on, frame by frame if it is to be. Returns when the first one arrives,
    /// if that is news.
    fn transmit(
        &mut self,
        path: &mut TxPath,
        id: PacketId,
        cx: &mut QueueContext<'_>,
    ) -> Option<Time> {
        let mut packet = cx.pool[id];
        let tell = packet.flags & FLAG_SMALL_QUEUE != 0;
        // Told once, not by every port on the way.
        packet.flags &= !FLAG_SMALL_QUEUE;
        cx.pool[id].flags = packet.flags;
        path.leaving = tell.then_some(TxCompletion { flow: packet.flow, bytes: packet.payload });
        // Aggregates of datagram flows are no multiple of a frame.
        let whole = packet.frames == 1
            || packet.kind.is_of_datagram_flow()
            || path.nic.as_ref().is_none_or(|nic| nic.config.whole);
        path.entered = packet.queued;
        self.stats.packets += u64::from(packet.frames);
        self.stats.wire_bytes += u64::from(packet.wire_bytes());
        if whole {
            let span = self.link.config.rate.span(u64::from(packet.wire_bytes()));
            let earlier = std::mem::replace(&mut self.free_at, cx.now + span);
            return self.fly(id, earlier, self.free_at, cx.pool);
        }
        let mut first = None;
        let mut at = cx.now;
        let last = packet.frames - 1;
        let full = packet.frame_payload();
        for i in 0..packet.frames {
            let piece = packet.piece(u32::from(i) * full, full);
            let earlier = if i == 0 { self.free_at } else { at };
            at += self.link.config.rate.span(u64::from(piece.wire_bytes()));
            // The last one takes the place of the whole.
            let id = if i == last {
                cx.pool[id] = piece;
                id
            } else {
                cx.pool.put(piece)
            };
            let arrives = self.fly(id, earlier, at, cx.pool);
            first = first.or(arrives);
        }
        self.free_at = at;
        first
    }
}

impl TxPath {
    fn ring_packets(&self) -> usize {
        self.nic.as_ref().map_or(0, |nic| nic.ring.len())
    }

    /// What was being sent has been.
    fn completed(&mut self, now: Time, sent: &mut Vec<TxCompletion>) {
        sent.extend(self.leaving.take());
        let Some(nic) = &mut self.nic else { return };
        let (bytes, descriptors) = std::mem::take(&mut nic.sending);
        if bytes > 0 {
            if let Some(limit) = &mut nic.limit {
                limit.completed(u64::from(bytes), now);
            }
            nic.descriptors -= descriptors;
        }
    }

    /// Moves as much into the ring as it takes.
    fn fill(&mut self, cx: &mut QueueContext<'_>) {
        let Some(nic) = &mut self.nic else { return };
        while nic.descriptors < nic.config.ring && nic.limit.as_ref().is_none_or(Dql::open) {
            let Some(id) = self.queue.dequeue(cx) else { break };
            let packet = &cx.pool[id];
            nic.descriptors += descriptors(packet);
            if let Some(limit) = &mut nic.limit {
                limit.queued(u64::from(packet.bytes()));
            }
            nic.ring.push_back(id);
        }
    }

    /// The next packet to send.
    fn next(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        let Some(nic) = &mut self.nic else { return self.queue.dequeue(cx) };
        let id = nic.ring.pop_front()?;
        let packet = &cx.pool[id];
        nic.sending = (packet.bytes(), descriptors(packet));
        Some(id)
    }
}

fn descriptors(packet: &Packet) -> u32 {
    packet.bytes().div_ceil(PAGE_BYTES) + u32::from(packet.frames > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_cache_line() {
        assert_eq!((size_of::<Port>(), align_of::<Port>()), (64, 64));
    }
}
