//! The two ends of a TCP stream, and what comes for them: segments, acknowledgements, their timers.

use lowtail_engine::Time;

use super::{Event, NO_SACK, Net};
use crate::flow::State;
use crate::packet::{Ecn, FlowId, Kind, Packet};
use crate::tcp::sender::{AckInfo, Segment};
use crate::tcp::{Answer, Expiry, FLAG_ECHO, FLAG_SMALL_QUEUE};

impl Net {
    /// Sends all that the sender of `id` may send now.
    pub(super) fn pump(&mut self, id: FlowId) {
        let now = self.queue.now();
        if self.flows[id.index()].state != State::Open {
            return;
        }
        loop {
            let flow = &mut self.flows[id.index()];
            let config = &self.configs[flow.traffic as usize];
            let Some(segment) = flow.sender.next_segment(&config.tcp, now) else { break };
            if !self.send_segment(id, segment) {
                break;
            }
        }
        self.arm(id);
    }

    /// Sends `segment`; `false` if the queue of the own host had no room for it.
    fn send_segment(&mut self, id: FlowId, segment: Segment) -> bool {
        let mut packet = self.packet(id, Kind::Data, true);
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize];
        (packet.seq, packet.payload) = (segment.seq, segment.payload);
        packet.frames = crate::packet::frames_of(segment.payload);
        // Retransmissions are not capable (RFC 3168, 6.1.5).
        if config.tcp.ecn && !segment.again {
            packet.ecn = Ecn::Capable;
        }
        if config.tcp.small_queues {
            packet.flags = FLAG_SMALL_QUEUE;
            flow.sender.qdisc_bytes += u64::from(segment.payload);
        }
        if config.reveal {
            let at = flow.messages.partition_point(|message| message.end <= segment.seq);
            packet.ack =
                flow.messages.get(at).map_or(u64::MAX, |message| message.end - segment.seq);
        }
        let small_queues = config.tcp.small_queues;
        self.emit(packet);
        if !small_queues || self.dropped.is_empty() || !self.was_refused(id, segment) {
            return true;
        }
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        flow.sender.refused(segment, &self.configs[flow.traffic as usize].tcp, now);
        false
    }

    /// Sees to it that the sender's deadline is met.
    #[inline]
    pub(super) fn arm(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        let deadline = flow.sender.deadline;
        // One that comes too early is simply set again; nearly all are.
        if deadline < flow.timer {
            flow.timer = deadline;
            self.queue.at(deadline.max(self.queue.now()), Event::Timer(id));
        }
    }

    pub(super) fn timer(&mut self, id: FlowId) {
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        if now != flow.timer {
            // An earlier one has taken its place since.
            return;
        }
        flow.timer = Time::NEVER;
        match flow.state {
            State::Open => {}
            State::Opening { asked } => return self.ask_again(id, asked),
            State::Closed => return,
        }
        let config = &self.configs[flow.traffic as usize].tcp;
        match flow.sender.expired(config, now) {
            Expiry::Later(_) => self.arm(id),
            Expiry::Send => {
                if flow.sender.is_probing()
                    && let Some(segment) = flow.sender.probe_segment(config, now)
                {
                    self.send_segment(id, segment);
                }
                self.pump(id);
            }
        }
    }

    /// Bytes of a TCP stream have come.
    pub(super) fn data(&mut self, packet: &Packet) {
        let (id, now) = (packet.flow, self.queue.now());
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize];
        if flow.receiver.mark_changes(packet, &config.tcp) {
            self.acknowledge(id);
        }
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize];
        let before = flow.receiver.next;
        let answer = flow.receiver.received(packet, &config.tcp, now);
        let fresh_bytes = flow.receiver.next - before;
        if fresh_bytes > 0 && now >= Time::ZERO + config.warmup {
            self.stats[flow.traffic as usize].delivered_bytes += fresh_bytes;
            match flow.counts_for {
                own if own == id.0 => flow.delivered_bytes += fresh_bytes,
                pair => self.flows[pair as usize].delivered_bytes += fresh_bytes,
            }
        }
        let flow = &mut self.flows[id.index()];
        match answer {
            Answer::Now => self.acknowledge(id),
            Answer::By(at) if flow.ack_timer == Time::NEVER => {
                flow.ack_timer = at;
                self.queue.at(at, Event::Acknowledge(id));
            }
            Answer::By(_) | Answer::Wait => {}
        }
        if fresh_bytes == 0 {
            return;
        }
        loop {
            let flow = &mut self.flows[id.index()];
            let there = flow.receiver.next;
            let Some(&message) = flow.messages.front().filter(|m| m.end <= there) else { break };
            flow.messages.pop_front();
            self.completed(id, message);
        }
    }

    fn acknowledge(&mut self, id: FlowId) {
        let mut packet = self.packet(id, Kind::Ack, false);
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize].tcp;
        let answer = flow.receiver.acknowledge(config);
        (packet.ack, packet.sent, packet.flags) = (answer.ack, answer.echo, answer.flags);
        packet.seq = answer.cause.as_ps();
        if let Some(sack) = answer.sack {
            packet.sack = self.sacks.put(sack);
        }
        self.emit(packet);
    }

    pub(super) fn late_acknowledgement(&mut self, id: FlowId) {
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        flow.ack_timer = Time::NEVER;
        if flow.receiver.due <= now {
            self.acknowledge(id);
        } else if flow.receiver.due != Time::NEVER {
            flow.ack_timer = flow.receiver.due;
            self.queue.at(flow.receiver.due, Event::Acknowledge(id));
        }
    }

    pub(super) fn free_sack(&mut self, sack: u32) {
        if sack != NO_SACK {
            self.sacks.release(sack);
        }
    }

    pub(super) fn acknowledged(&mut self, packet: &Packet) {
        let (id, now) = (packet.flow, self.queue.now());
        let flow = &mut self.flows[id.index()];
        let traffic = &self.configs[flow.traffic as usize];
        let per_message = traffic.per_message();
        let config = &traffic.tcp;
        let sack = (packet.sack != NO_SACK).then(|| &self.sacks[packet.sack]);
        let info = AckInfo {
            ack: packet.ack,
            sack,
            rtt: now.saturating_since(packet.sent),
            cause: Time::from_ps(packet.seq),
            marked: packet.flags & FLAG_ECHO != 0,
        };
        flow.sender.acked(&info, config, now);
        self.free_sack(packet.sack);
        self.pump(id);
        if per_message {
            self.close_if_over(id);
        }
    }
}
