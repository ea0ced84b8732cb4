//! Ports at which somebody looks: a packet's way through them, and whose bytes were in front of it.

use lowtail_engine::Time;

use super::Net;
use super::blame::{BlameConfig, Classes, PortBlame};
use super::tap::TapConfig;
use crate::packet::{Packet, PacketId};
use crate::port::{PortActions, PortId};
use crate::queue::QueueContext;

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
        self.blame = Some(Box::new(Classes::new(config)));
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
        if let Some(classes) = &mut self.blame {
            classes.replace(at, &self.flows, traffic);
        }
    }

    /// Blame at port number `at`, which has a tap; it takes memory from its first packet on.
    fn blame_of(&mut self, at: usize) -> &mut PortBlame {
        let tap = self.ports[at].tap.map_or(0, |tap| tap.get() as usize - 1);
        let classes = self.blame.as_ref().map_or(0, |classes| classes.count());
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
        self.blame.as_ref().map_or(0, |classes| classes.of(packet, &self.flows))
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
