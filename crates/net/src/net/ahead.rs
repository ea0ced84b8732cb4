//! Fetching what the next events will need.
//!
//! A hop reads a port, the packet that comes first on its link, which one is behind it, its way and
//! the next port. In a
//! network of thousands of hosts none of these is in the cache, and each is known only when
//! the one before has been read. The queue knows some events in advance, so each is looked at
//! several times as it comes nearer, one step along that chain each time: by its turn all
//! is there, and misses of different events overlap. Nothing is decided here; events that come in
//! between only make a hint come late.

use lowtail_engine::prefetch::{prefetch, prefetch_all};

use super::{Event, HERE, Net};
use crate::flow::Flow;
use crate::packet::{Kind, Packet, PacketId};
use crate::port::Port;

/// How many events ahead each step is taken. They are some way apart for a miss to be over.
const PORT: usize = 14;
const PACKET: usize = 10;
const ROUTE: usize = 6;
const NEXT_PORT: usize = 4;
const NEXT_LAST: usize = 1;
const _: () = assert!(PORT < lowtail_engine::calendar::LOOKAHEAD);

impl Net {
    /// To be called for each event.
    #[inline(always)]
    pub(super) fn look_ahead(&self) {
        if let Some(Event::Arrive(port)) = self.queue.upcoming(PORT) {
            self.ports[port.index()].fetch();
        }
        if let Some(id) = self.arriving(PACKET) {
            prefetch(&raw const self.pool[id]);
            prefetch(self.pool.behind(id));
        }
        if let Some(id) = self.arriving(ROUTE) {
            prefetch(&raw const self.routes[self.pool[id].route as usize]);
        }
        if let Some(id) = self.arriving(NEXT_PORT) {
            let packet = &self.pool[id];
            let next = self.routes[packet.route as usize];
            if next == HERE {
                if let Some(flow) = self.flow_of(packet) {
                    prefetch(&raw const flow.forth);
                    prefetch(&raw const flow.traffic);
                    prefetch(&raw const flow.messages);
                    prefetch(&raw const flow.ack_timer);
                    prefetch(&raw const flow.delivered_bytes);
                    match packet.kind {
                        Kind::Data => prefetch_all(&flow.receiver),
                        Kind::Ack => prefetch_all(&flow.sender),
                        _ => {}
                    }
                }
                // An answer leaves through the host's own port, which has its number.
                let host = self.ends[packet.dst.index()].host;
                if let Some(port) = self.ports.get(host as usize) {
                    port.fetch();
                }
            } else {
                self.ports[next as usize].fetch();
            }
        }
        if let Some(id) = self.arriving(NEXT_LAST) {
            let next = self.routes[self.pool[id].route as usize];
            if let Some(last) = self.ports.get(next as usize).and_then(Port::last) {
                prefetch(self.pool.behind(last));
            }
        }
    }

    /// The flow of `packet`; `None` if that is a datagram flow, of which there are few.
    #[inline(always)]
    fn flow_of(&self, packet: &Packet) -> Option<&Flow> {
        (!packet.kind.is_of_datagram_flow()).then(|| &self.flows[packet.flow.index()])
    }

    /// The packet that arrives `n` events ahead, if that is such an event.
    #[inline(always)]
    fn arriving(&self, n: usize) -> Option<PacketId> {
        match self.queue.upcoming(n) {
            Some(Event::Arrive(port)) => self.ports[port.index()].first(),
            _ => None,
        }
    }
}
