//! Ports at which somebody looks: a packet's way through them, and whose bytes were in front of it.

use lowtail_engine::Time;

use super::Net;
use super::blame::{BlameConfig, PortBlame};
use super::tap::TapConfig;
use crate::packet::{Packet, PacketId};
use crate::port::{PortActions, PortId};
use crate::queue::QueueContext;

/// Who is blamed.
#[derive(Debug)]
pub(super) struct Blame {
    config: BlameConfig,
    classes: usize,
    /// By flow: the classes of the last connections in its place, by their generation. Of flows beyond the end all are the same.
    former: Vec<[u8; GENERATIONS]>,
}

/// Connections in one place whose packets are told apart. One follows the other after a second at least: a packet that waits longer
/// than all of these counts for another traffic.
const GENERATIONS: usize = 16;

/// A port before a call.
#[derive(Debug, Clone, Copy)]
struct Before {
    waiting: usize,
    packets: u64,
    wire_bytes: u64,
    free_at: Time,
    /// Packets that were dropped already.
    dropped: usize,
}

impl Net {
    /// Counts from now on at all ports whose bytes are in front of whose packets. To be called before the first event.
    ///
    /// # Panics
    /// If there is no class for a traffic or for a datagram flow.
    pub fn blame(&mut self, config: BlameConfig) {
        assert_eq!(config.traffic.len(), self.configs.len(), "a class for each traffic");
        assert_eq!(config.datagrams.len(), self.datagrams.len(), "a class for each datagram flow");
        for port in (0..self.ports.len() as u32).map(PortId) {
            if self.ports[port.index()].tap.is_none() {
                self.tap(port, TapConfig::default());
            }
        }
        let classes = config.classes();
        self.blame = Some(Box::new(Blame { config, classes, former: Vec::new() }));
    }

    /// The ports to which packets have come since [`blame`](Self::blame), in order.
    pub fn blamed(&self) -> impl Iterator<Item = (PortId, &PortBlame)> {
        let all = self.ports.iter().enumerate();
        all.filter_map(|(at, port)| {
            let tap = &self.taps[port.tap?.get() as usize - 1];
            Some((PortId(at as u32), tap.blame.as_deref()?))
        })
    }

    /// As [`forward`](Self::forward) does, at a port with a tap.
    #[cold]
    pub(super) fn enqueue_watched(&mut self, port: PortId, id: PacketId) -> PortActions {
        let before = self.before(port);
        let class = self.blame.is_some().then(|| self.class(&self.pool[id]));
        let bytes = self.pool[id].wire_bytes();
        let mut cx = QueueContext {
            now: self.queue.now(),
            pool: &mut self.pool,
            dropped: &mut self.dropped,
        };
        let actions = self.ports[port.index()].enqueue(id, &mut cx, &mut self.left);
        if let Some(class) = class {
            match self.ports[port.index()].is_plain() {
                true => self.came(port, class, bytes, before),
                false => self.account(port, Some(class), before),
            }
        }
        self.sample(port);
        actions
    }

    /// As [`wake`](Self::wake) does, at a port with a tap.
    #[cold]
    pub(super) fn wake_watched(&mut self, port: PortId) -> PortActions {
        let before = self.before(port);
        let mut cx = QueueContext {
            now: self.queue.now(),
            pool: &mut self.pool,
            dropped: &mut self.dropped,
        };
        let actions = self.ports[port.index()].wake(&mut cx, &mut self.left);
        if self.blame.is_some() {
            self.account(port, None, before);
        }
        self.sample(port);
        actions
    }

    /// The place of flow number `at` is a connection's of number `traffic` next.
    pub(super) fn replaced(&mut self, at: usize, traffic: u32) {
        let Some(blame) = &mut self.blame else { return };
        let class = |traffic: u32| blame.config.traffic[traffic as usize];
        for flow in &self.flows[blame.former.len().min(at + 1)..=at] {
            blame.former.push([class(flow.traffic); GENERATIONS]);
        }
        let next = usize::from(self.flows[at].generation.wrapping_add(1));
        blame.former[at][next % GENERATIONS] = class(traffic);
    }

    /// Blame at port number `at`, which has a tap; it takes memory from its first packet on.
    fn blame_of(&mut self, at: usize) -> &mut PortBlame {
        let tap = self.ports[at].tap.map_or(0, |tap| tap.get() as usize - 1);
        let classes = self.blame.as_ref().map_or(0, |blame| blame.classes);
        self.taps[tap].blame.get_or_insert_with(|| Box::new(PortBlame::new(classes)))
    }

    fn before(&self, port: PortId) -> Before {
        let port = &self.ports[port.index()];
        Before {
            waiting: port.waiting(),
            packets: port.stats.packets,
            wire_bytes: port.stats.wire_bytes,
            free_at: port.free_at(),
            dropped: self.dropped.len(),
        }
    }

    /// The class of a packet.
    fn class(&self, packet: &Packet) -> u8 {
        let Some(blame) = &self.blame else { return 0 };
        let at = packet.flow.index();
        if packet.kind.is_of_datagram_flow() {
            return blame.config.datagrams[at];
        }
        match blame.former.get(at) {
            Some(classes) => classes[usize::from(packet.generation) % GENERATIONS],
            None => blame.config.traffic[self.flows[at].traffic as usize],
        }
    }

    /// A packet of `bytes` on the wire has come to a plain port, which was as `before`.
    fn came(&mut self, port: PortId, class: u8, bytes: u32, before: Before) {
        let (at, now) = (port.index(), self.queue.now());
        let port = &self.ports[at];
        if port.stats.packets == before.packets {
            // There was no room.
            return;
        }
        let (rate, sent) = (port.link().rate, port.free_at());
        self.blame_of(at).came(class, bytes, now, (before.free_at.max(now), sent), rate);
    }

    /// Accounts for what has happened at a port with a discipline, which was as `before`: packets of a class have come, some may
    /// have been dropped, and one may be being sent.
    fn account(&mut self, port: PortId, class: Option<u8>, before: Before) {
        let (at, now) = (port.index(), self.queue.now());
        let port = &self.ports[at];
        let (waiting, began) = (port.waiting(), port.stats.packets > before.packets);
        let rest = port.link().rate.bytes(before.free_at.saturating_since(now));
        let dropped = self.dropped.len() - before.dropped;
        // Pieces, if it was cut up.
        let came = (waiting + dropped + usize::from(began)).saturating_sub(before.waiting);
        let sent = match port.last() {
            Some(id) if began => {
                let bytes = port.stats.wire_bytes - before.wire_bytes;
                Some((self.class(&self.pool[id]), bytes, now.since(port.entered())))
            }
            _ => None,
        };
        if let Some(class) = class {
            self.blame_of(at).entered(class, came as u32, rest, now);
        }
        for i in before.dropped..before.dropped + dropped {
            let packet = &self.pool[self.dropped[i].0];
            let (class, waited) = (self.class(packet), now.since(packet.queued));
            self.blame_of(at).dropped(class, waited, rest, now);
        }
        let blame = self.blame_of(at);
        if let Some((class, bytes, waited)) = sent {
            blame.began(class, bytes, waited, now);
        }
        if waiting == 0 {
            blame.emptied();
        }
    }
}
