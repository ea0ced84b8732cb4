//! A packet on its way: from an end through one port after the other to an end.

use super::{Event, HERE, NO_SACK, Net, NetEvent};
use crate::net::datagrams::FLAG_IN_MACHINE;
use crate::packet::{Ecn, End, FlowId, Kind, Packet, PacketId, Pool};
use crate::port::{PortActions, PortId, TxCompletion};
use crate::queue::{Cause, QueueContext};
use crate::tcp::FLAG_SMALL_QUEUE;
use crate::tcp::sender::Segment;

impl Net {
    /// Sends `id` through the next port of its way, or delivers it.
    #[inline]
    pub(super) fn forward(&mut self, id: PacketId) {
        let packet = &mut self.pool[id];
        let next = self.routes[packet.route as usize];
        if next == HERE {
            return self.deliver(id);
        }
        packet.route += 1;
        let port = PortId(next);
        if self.shared.is_some() && self.refused(port, id) {
            return;
        }
        let own = &mut self.ports[port.index()];
        if own.tap.is_some() {
            let actions = self.enqueue_watched(port, id);
            return self.follow(port, actions);
        }
        let mut cx = QueueContext {
            now: self.queue.now(),
            pool: &mut self.pool,
            dropped: &mut self.dropped,
        };
        let actions = own.enqueue(id, &mut cx, &mut self.left);
        self.follow(port, actions);
    }

    pub(super) fn wake(&mut self, port: PortId) {
        let own = &mut self.ports[port.index()];
        if own.tap.is_some() {
            let actions = self.wake_watched(port);
            return self.follow(port, actions);
        }
        let mut cx = QueueContext {
            now: self.queue.now(),
            pool: &mut self.pool,
            dropped: &mut self.dropped,
        };
        let actions = own.wake(&mut cx, &mut self.left);
        self.follow(port, actions);
    }

    #[inline]
    fn follow(&mut self, port: PortId, actions: PortActions) {
        if let Some(at) = actions.arrive {
            self.queue.at(at, Event::Arrive(port));
        }
        if let Some(at) = actions.wake {
            self.queue.at(at, Event::Wake(port));
        }
    }

    /// Takes account of what was dropped and of what has left hosts, until nothing is left.
    #[inline]
    pub(super) fn settle(&mut self) {
        while let Some((id, cause)) = self.dropped.pop() {
            self.dispose(id, cause);
        }
        while let Some(left) = self.left.pop() {
            self.has_left(left);
            while let Some((id, cause)) = self.dropped.pop() {
                self.dispose(id, cause);
            }
        }
    }

    fn has_left(&mut self, left: TxCompletion) {
        let sender = &mut self.flows[left.flow.index()].sender;
        sender.qdisc_bytes = sender.qdisc_bytes.saturating_sub(u64::from(left.bytes));
        self.pump(left.flow);
    }

    #[cold]
    fn dispose(&mut self, id: PacketId, cause: Cause) {
        let packet = self.pool.take(id);
        self.free_sack(packet.sack);
        self.frames.dropped[cause as usize] += u64::from(packet.frames);
        if packet.kind.is_of_datagram_flow() {
            if packet.flags & FLAG_IN_MACHINE != 0 {
                self.made_room(packet.flow.0);
            }
            return self.datagram_lost(&packet);
        }
        self.count_dropped(&packet);
        if packet.kind == Kind::Data && packet.flags & FLAG_SMALL_QUEUE != 0 {
            self.left.push(TxCompletion { flow: packet.flow, bytes: packet.payload });
        }
    }

    fn count_dropped(&mut self, packet: &Packet) {
        let stats = &mut self.stats[self.flows[packet.flow.index()].traffic as usize];
        stats.dropped += u64::from(packet.frames);
        stats.dropped_packets += 1;
    }

    /// Whether a link that loses at random loses the packet that arrives at its end.
    pub(super) fn lost_on_link(&mut self, port: PortId) -> bool {
        let loss = u64::from(self.ports[port.index()].link().loss_per_billion);
        loss > 0 && self.losses[port.index()].below(1_000_000_000) < loss
    }

    /// `id` has arrived where it was to go.
    #[inline]
    pub(super) fn deliver(&mut self, id: PacketId) {
        let dst = self.pool[id].dst;
        if self.ends[dst.index()].attached {
            self.out.push(NetEvent::Arrived { end: dst, id });
        } else {
            self.accept(id);
        }
    }

    /// The end to which `id` goes has it.
    pub fn receive(&mut self, id: PacketId) {
        self.accept(id);
        self.settle();
    }

    fn accept(&mut self, id: PacketId) {
        let packet = self.pool.take(id);
        self.frames.received += u64::from(packet.frames);
        if packet.kind == Kind::Data && packet.flags & FLAG_SMALL_QUEUE != 0 {
            // No port on its way has told: plain ones do not, and within a host there is none.
            self.left.push(TxCompletion { flow: packet.flow, bytes: packet.payload });
        }
        if !packet.kind.is_of_datagram_flow()
            && packet.generation != self.flows[packet.flow.index()].generation
        {
            // Of a connection that is over.
            return self.free_sack(packet.sack);
        }
        match packet.kind {
            Kind::Data => self.data(&packet),
            Kind::Syn => self.asked_to_open(&packet),
            Kind::SynAck => self.opened(&packet),
            Kind::LastAck => self.last_acknowledged(&packet),
            Kind::Fin => self.asked_to_close(&packet),
            Kind::Ack => self.acknowledged(&packet),
            Kind::Datagram => self.datagram(&packet),
            Kind::Ping => self.answer(&packet),
            Kind::Pong => self.answered(&packet),
            Kind::Chunk | Kind::Receipt | Kind::Request | Kind::Reply => {
                self.datagram_arrived(&packet);
            }
        }
    }

    /// `id` is lost in its host.
    pub fn lose(&mut self, id: PacketId) {
        self.dispose(id, Cause::Host);
        self.settle();
    }

    /// `id` has come to the queue of its host's NIC.
    pub fn transmit(&mut self, id: PacketId) {
        if self.pool[id].flags & FLAG_IN_MACHINE != 0 {
            self.left_machine(id);
        }
        self.forward(id);
        self.settle();
    }

    /// Sends `packet`: hands it out, or puts it on its way.
    #[inline(always)]
    pub(super) fn emit(&mut self, packet: Packet) {
        let id = self.pool.put(packet);
        self.send(id);
    }

    /// Whether `segment` of `flow`, which was sent last, has found no room in the queue of its own host: not one piece of it. It is
    /// gone then. Of one that was cut up and has found room in part, the rest is lost as anywhere (Linux `tbf_segment`).
    pub(super) fn was_refused(&mut self, flow: FlowId, segment: Segment) -> bool {
        let range = segment.seq..segment.seq + u64::from(segment.payload);
        let is_piece = |pool: &Pool, &(id, cause): &(PacketId, Cause)| {
            let packet = &pool[id];
            let of_it = packet.flow == flow && packet.kind == Kind::Data;
            of_it && cause == Cause::Full && range.contains(&packet.seq)
        };
        let pieces = self.dropped.iter().filter(|dropped| is_piece(&self.pool, dropped));
        if pieces.map(|dropped| self.pool[dropped.0].payload).sum::<u32>() < segment.payload {
            return false;
        }
        while let Some(at) = self.dropped.iter().position(|one| is_piece(&self.pool, one)) {
            let (id, cause) = self.dropped.remove(at);
            let packet = self.pool.take(id);
            self.frames.dropped[cause as usize] += u64::from(packet.frames);
            self.count_dropped(&packet);
        }
        true
    }

    fn send(&mut self, id: PacketId) {
        let Packet { src, route, frames, .. } = self.pool[id];
        self.frames.sent += u64::from(frames);
        if self.ends[src.index()].attached {
            self.out.push(NetEvent::Sends { end: src, id });
        } else if self.routes[route as usize] == HERE {
            self.queue.after(self.local_delay, Event::Local(id));
        } else {
            self.forward(id);
        }
    }

    /// A packet of `id`, from its source if `onward`, else back; without payload.
    #[inline(always)]
    pub(super) fn packet(&self, id: FlowId, kind: Kind, onward: bool) -> Packet {
        let flow = &self.flows[id.index()];
        let (src, dst, route) =
            if onward { (flow.src, flow.dst, flow.forth) } else { (flow.dst, flow.src, flow.back) };
        Packet { generation: flow.generation, ..self.packet_of(id, (src, dst, route), kind) }
    }

    /// A packet of `flow` from the first end to the second one by `route`, without payload.
    #[inline(always)]
    pub(super) fn packet_of(
        &self,
        flow: FlowId,
        (src, dst, route): (End, End, u32),
        kind: Kind,
    ) -> Packet {
        Packet {
            seq: 0,
            ack: 0,
            sent: self.queue.now(),
            queued: self.queue.now(),
            flow,
            src,
            dst,
            route,
            payload: 0,
            sack: NO_SACK,
            frames: 1,
            kind,
            ecn: Ecn::Not,
            class: 0,
            flags: 0,
            generation: 0,
        }
    }
}
