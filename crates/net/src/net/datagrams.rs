//! What datagram flows send, and what happens where it arrives.

use lowtail_engine::{Duration, Time};

use super::{Event, Net, NetEvent};
use crate::datagram::{
    DatagramConfig, DatagramFlow, RECEIPT_PAYLOAD, RESEND_AFTER, SOCKET_PACKETS,
};
use crate::net::job::{DatagramJob, Job};
use crate::packet::{End, FlowId, Kind, Packet, PacketId};
use crate::port::PortId;
use crate::queue::Cause;
use crate::topology::Shape;

/// The packet is in the machine of the attached end that sends it ([`Packet::flags`]).
pub(super) const FLAG_IN_MACHINE: u8 = 1 << 7;

impl Net {
    /// Opens a datagram flow and has it begin.
    pub(super) fn open_datagrams(&mut self, shape: &Shape, config: &DatagramConfig, seed: u64) {
        let index = self.datagrams.len() as u32;
        let (from, to) = (self.ends[config.src.index()].host, self.ends[config.dst.index()].host);
        let hash = u64::from(index) ^ seed;
        let ways = (self.way(shape, from, to, hash), self.way(shape, to, from, hash));
        let mut flow = DatagramFlow::new(config.clone(), ways, index, seed);
        let start = flow.draw_start();
        self.queue.at(Time::ZERO + start, Event::Send(index));
        if flow.is_window() {
            self.windows.resize(self.ends.len(), Vec::new());
            self.windows[config.dst.index()].push(index);
        }
        self.datagrams.push(flow);
    }

    /// Sends what flow number `index` may send now, and sees to it that more follows.
    pub(super) fn send_datagrams(&mut self, index: u32) {
        let now = self.queue.now();
        let flow = &self.datagrams[index as usize];
        let attached = self.ends[flow.config.src.index()].attached;
        let mut room = !attached || flow.has_room();
        while self.datagrams[index as usize].may_send(now) {
            let flow = &mut self.datagrams[index as usize];
            let gap = flow.draw_gap();
            let first = self.routes[flow.forth as usize];
            if !room && gap.is_none() {
                // The next one follows when one has left the machine.
                return;
            }
            flow.count_sent();
            if room {
                self.send_datagram(index, attached);
            } else {
                flow.count_lost(Kind::Chunk);
            }
            let flow = &self.datagrams[index as usize];
            room = !attached || flow.has_room();
            let next = match gap {
                Some(gap) => now + gap,
                None if flow.is_window() || attached => continue,
                // As fast as the link takes them: the next one when this one has left.
                None => match self.ports.get(PortId(first).index()) {
                    Some(port) => port.free_at(),
                    // It stays in its machine.
                    None => now + self.local_delay.max(Duration::from_us(1)),
                },
            };
            self.queue.at(next.max(now), Event::Send(index));
            return;
        }
    }

    fn send_datagram(&mut self, index: u32, attached: bool) {
        let now = self.queue.now();
        let flow = &mut self.datagrams[index as usize];
        let (kind, payload, frames) = flow.packet();
        let (end, process) = (flow.config.src, flow.config.src_process);
        let counted = attached && !flow.is_window();
        flow.in_machine += u32::from(counted);
        let packet = self.datagram_packet(index, kind, true, (payload, frames), now);
        if !attached {
            return self.emit(packet);
        }
        self.frames.sent += u64::from(frames);
        let flags = if counted { FLAG_IN_MACHINE } else { 0 };
        let id = self.pool.put(Packet { flags, ..packet });
        self.out.push(NetEvent::Writes { end, id, process });
    }

    /// A packet of flow number `index` with so much payload in so many frames, sent at `sent`, to where the flow goes or (not `onward`) back.
    #[inline(always)]
    fn datagram_packet(
        &self,
        index: u32,
        kind: Kind,
        onward: bool,
        (payload, frames): (u32, u16),
        sent: Time,
    ) -> Packet {
        let flow = &self.datagrams[index as usize];
        let DatagramConfig { src, dst, .. } = flow.config;
        let ends = if onward { (src, dst, flow.forth) } else { (dst, src, flow.back) };
        Packet { payload, frames, sent, ..self.packet_of(FlowId(index), ends, kind) }
    }

    /// Packet `id` of an open flow has left the machine of the attached end that has sent it.
    pub(super) fn left_machine(&mut self, id: PacketId) {
        let packet = &mut self.pool[id];
        packet.flags &= !FLAG_IN_MACHINE;
        let index = packet.flow.0;
        self.made_room(index);
    }

    /// The machine of the attached end that sends has a packet of flow number `index` less.
    pub(super) fn made_room(&mut self, index: u32) {
        let flow = &mut self.datagrams[index as usize];
        flow.in_machine -= 1;
        if flow.has_no_gap() {
            self.send_datagrams(index);
        }
    }

    /// `packet` of a datagram flow is where it was to go.
    pub(super) fn datagram_arrived(&mut self, packet: &Packet) {
        let (index, now) = (packet.flow.0, self.queue.now());
        if packet.flags & FLAG_IN_MACHINE != 0 {
            self.made_room(index);
        }
        let flow = &mut self.datagrams[index as usize];
        match packet.kind {
            Kind::Receipt => {
                flow.count_acknowledged(packet.seq as u32);
                self.send_datagrams(index);
            }
            Kind::Reply => flow.count_answered(packet.sent, now),
            kind => {
                let DatagramConfig { dst, service, dst_process: process, .. } = flow.config;
                let work =
                    DatagramJob { flow: index, kind, payload: packet.payload, sent: packet.sent };
                if !self.ends[dst.index()].attached {
                    let caught_up = flow.in_flight <= flow.unacked + 1;
                    self.received(work, caught_up);
                } else if service.is_zero() {
                    self.received(work, false);
                } else if flow.at_process < SOCKET_PACKETS {
                    flow.at_process += 1;
                    let job = self.jobs.put(Job::Datagram(work));
                    self.out.push(NetEvent::Work { end: dst, process, span: service, job });
                } else {
                    // The socket's buffer is full.
                    self.frames.received -= u64::from(packet.frames);
                    self.frames.dropped[Cause::Host as usize] += u64::from(packet.frames);
                    self.datagram_lost(packet);
                }
            }
        }
    }

    /// A process has worked for a packet.
    pub(super) fn worked(&mut self, work: DatagramJob) {
        let flow = &mut self.datagrams[work.flow as usize];
        flow.at_process -= 1;
        let caught_up = flow.at_process == 0;
        self.received(work, caught_up);
    }

    /// A packet of a stream counts as received, a request is answered. `caught_up`: nothing else
    /// is on its way that would make up a pair to be acknowledged.
    fn received(
        &mut self,
        DatagramJob { flow: index, kind, payload, sent }: DatagramJob,
        caught_up: bool,
    ) {
        let now = self.queue.now();
        let flow = &mut self.datagrams[index as usize];
        if kind == Kind::Request {
            let reply = flow.reply();
            let packet = self.datagram_packet(index, Kind::Reply, false, reply, sent);
            return self.emit(packet);
        }
        let mut packets = flow.count_arrived(payload, now);
        if packets == 0 && caught_up {
            packets = flow.acknowledge();
        }
        self.send_receipt(index, packets);
    }

    /// Acknowledges so many `packets` of flow number `index`, if there are any.
    fn send_receipt(&mut self, index: u32, packets: u32) {
        if packets == 0 {
            return;
        }
        let now = self.queue.now();
        let receipt = self.datagram_packet(index, Kind::Receipt, false, (RECEIPT_PAYLOAD, 1), now);
        self.emit(Packet { seq: u64::from(packets), ..receipt });
    }

    /// The attached end has received all that waited in queue number `queue` of the `queues` of its
    /// interface, to which packets go by the number of their flow: it acknowledges the rest, since
    /// nothing there makes up a pair.
    pub fn caught_up(&mut self, end: End, queue: usize, queues: usize) {
        let Some(windows) = self.windows.get_mut(end.index()) else { return };
        let windows = std::mem::take(windows);
        for &index in &windows {
            if index as usize % queues.max(1) == queue {
                let packets = self.datagrams[index as usize].acknowledge();
                self.send_receipt(index, packets);
            }
        }
        self.windows[end.index()] = windows;
        self.settle();
    }

    /// `packet` of a datagram flow is lost. Data of a window is sent again later; other packets are not
    /// missed, or their sender finds out by itself.
    pub(super) fn datagram_lost(&mut self, packet: &Packet) {
        let index = packet.flow.0;
        let flow = &mut self.datagrams[index as usize];
        flow.count_lost(packet.kind);
        let times = match packet.kind {
            Kind::Chunk if flow.is_window() => 1,
            // Later acknowledgements would tell; here each tells of its own packets only.
            Kind::Receipt => packet.seq,
            _ => 0,
        };
        for _ in 0..times {
            self.queue.after(RESEND_AFTER, Event::Resend(index));
        }
    }

    /// The time has come to send a lost packet again.
    pub(super) fn resend(&mut self, index: u32) {
        self.datagrams[index as usize].count_acknowledged(1);
        self.send_datagrams(index);
    }
}
