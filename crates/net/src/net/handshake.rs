//! How a TCP connection is opened and closed.
//!
//! Who opens it asks (SYN), is answered (SYN, ACK) and acknowledges that; then it sends. What is lost
//! is asked for again after a time-out. Who has opened it closes it when all is there and acknowledged (FIN, answered once). Neither of
//! these is sent again if it is lost: nothing waits for them.

use lowtail_engine::{Duration, Time};

use super::{Event, Net};
use crate::flow::State;
use crate::packet::{FlowId, Kind, Packet};
use crate::tcp::{Receiver, Sender};

/// How long others may not have the place of a connection that is over: what is still under way of it has
/// arrived by then, or is known by its generation.
const TIME_WAIT: Duration = Duration::from_ms(1_000);
/// How often it is asked at the same distance, before that doubles (Linux 6.5 `tcp_syn_linear_timeouts`: four times again).
const ASKED_LINEARLY: u32 = 5;

impl Net {
    /// Opens the connection of `id` if it is not open and has not been asked for; then it sends.
    pub(super) fn connect(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        match flow.state {
            State::Open => self.pump(id),
            State::Closed if self.channels[flow.channel as usize].forth == id.0 => self.ask(id, 1),
            State::Closed => {
                // The other end has opened it; what said so last was lost.
                flow.state = State::Open;
                self.pump(id);
            }
            State::Opening { .. } => {}
        }
    }

    /// Asks for it, the `asked`th time.
    fn ask(&mut self, id: FlowId, asked: u32) {
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize].tcp;
        let doubled = asked.saturating_sub(ASKED_LINEARLY).min(7);
        flow.state = State::Opening { asked };
        flow.sender.deadline = now + config.rto_initial * (1 << doubled);
        self.arm(id);
        let syn = self.packet(id, Kind::Syn, true);
        self.emit(syn);
    }

    /// A timer of a connection that is not there yet.
    pub(super) fn ask_again(&mut self, id: FlowId, asked: u32) {
        let deadline = self.flows[id.index()].sender.deadline;
        if deadline <= self.queue.now() {
            self.flows[id.index()].sender.counts.timeouts += 1;
            self.ask(id, asked + 1);
        } else {
            self.arm(id);
        }
    }

    pub(super) fn asked_to_open(&mut self, syn: &Packet) {
        let answer = self.packet(syn.flow, Kind::SynAck, false);
        self.emit(Packet { sent: syn.sent, seq: self.queue.now().as_ps(), ..answer });
    }

    /// The answer is there.
    pub(super) fn opened(&mut self, answer: &Packet) {
        let (id, now) = (answer.flow, self.queue.now());
        let flow = &mut self.flows[id.index()];
        let State::Opening { asked } = flow.state else { return };
        flow.state = State::Open;
        flow.sender.opened(now.since(answer.sent), asked);
        let last = self.packet(id, Kind::LastAck, true);
        self.emit(Packet { sent: Time::from_ps(answer.seq), ..last });
        self.pump(id);
    }

    /// Who was asked knows the round trip, too.
    pub(super) fn last_acknowledged(&mut self, packet: &Packet) {
        let flow = &self.flows[packet.flow.index()];
        let back = self.channels[flow.channel as usize].back;
        if FlowId(back) != packet.flow && self.flows[back as usize].state != State::Open {
            let flow = &mut self.flows[back as usize];
            flow.state = State::Open;
            flow.sender.opened(self.queue.now().since(packet.sent), 1);
            self.pump(FlowId(back));
        }
    }

    pub(super) fn asked_to_close(&mut self, fin: &Packet) {
        let answer = self.packet(fin.flow, Kind::Ack, false);
        // A FIN counts as a byte (RFC 9293, 3.4).
        let ack = self.flows[fin.flow.index()].receiver.next + 1;
        self.emit(Packet { ack, sent: fin.sent, seq: fin.sent.as_ps(), ..answer });
    }

    /// Closes the connection of which `id` is a flow, if it is one for a single message and that has come through.
    pub(super) fn close_if_over(&mut self, id: FlowId) {
        let channel = self.flows[id.index()].channel;
        let ends = self.channels[channel as usize];
        let both = [ends.forth, ends.back].map(|id| &self.flows[id as usize]);
        let over = both.iter().all(|flow| {
            let sender = &flow.sender;
            flow.state == State::Open && sender.end > 0 && sender.una == sender.end
        });
        if !over {
            return;
        }
        let forth = FlowId(ends.forth);
        let end = self.flows[forth.index()].sender.end;
        let fin = self.packet(forth, Kind::Fin, true);
        for id in [ends.forth, ends.back] {
            self.flows[id as usize].state = State::Closed;
        }
        self.emit(Packet { seq: end, ..fin });
        let two_way = usize::from(ends.forth != ends.back);
        self.closed[two_way].push_back((self.queue.now() + TIME_WAIT, channel));
    }

    /// A connection of its own for a message of conversation number `pair`: one that has long been over, begun anew, or another one. By
    /// `hash` switches choose its way; as they do for others if absent.
    pub(super) fn another(&mut self, pair: u32, hash: Option<u64>) -> u32 {
        let model = self.channels[pair as usize];
        let two_way = model.forth != model.back;
        let (source, account) = (model.source, [model.forth, model.back]);
        let (src, dst, traffic) = {
            let flow = &self.flows[model.forth as usize];
            (flow.src, flow.dst, flow.traffic)
        };
        let now = self.queue.now();
        let closed = &mut self.closed[usize::from(two_way)];
        let channel = match closed.front() {
            Some(&(at, channel)) if at <= now => {
                closed.pop_front();
                channel
            }
            _ => return self.open_channel(traffic, source, (src, dst), Some((account, hash))),
        };
        let ends = self.channels[channel as usize];
        self.channels[channel as usize].source = source;
        for (id, pair, account) in
            [(ends.forth, (src, dst), account[0]), (ends.back, (dst, src), account[1])]
        {
            let (forth, back) = self.ways(pair, hash);
            self.replaced(id as usize, traffic);
            let flow = &mut self.flows[id as usize];
            let config = &self.configs[traffic as usize].tcp;
            (flow.src, flow.dst, flow.forth, flow.back) = (pair.0, pair.1, forth, back);
            (flow.traffic, flow.counts_for, flow.state) = (traffic, account, State::Closed);
            (flow.sender, flow.receiver) = (Sender::new(config), Receiver::new());
            flow.messages.clear();
            flow.generation = flow.generation.wrapping_add(1);
            if ends.forth == ends.back {
                break;
            }
        }
        channel
    }

    /// The stream on which the next message of conversation number `channel` goes.
    #[inline]
    pub(super) fn stream(&mut self, channel: u32) -> FlowId {
        let forth = self.channels[channel as usize].forth;
        let traffic = self.flows[forth as usize].traffic as usize;
        if !self.configs[traffic].per_message() {
            return FlowId(forth);
        }
        let own = self.another(channel, None);
        FlowId(self.channels[own as usize].forth)
    }

    /// The next transfer of the list of `source` begins; the one after it will.
    pub(super) fn begin_listed(&mut self, source: u32) {
        let now = self.queue.now();
        let own = &mut self.sources[source as usize];
        let traffic = own.traffic as usize;
        let config = &self.configs[traffic];
        let at = own.begun as usize;
        own.begun += 1;
        let Some(&listed) = config.flows.get(at) else { return };
        if let Some(next) = config.flows.get(at + 1) {
            let at = (Time::ZERO + config.start + next.start).max(now);
            self.queue.at(at, Event::Write(source));
        }
        let pair = own.first + own.pairs[at];
        let channel = self.another(pair, listed.hash);
        let id = FlowId(self.channels[channel as usize].forth);
        self.post(id, listed.bytes, now, crate::flow::Role::Listed(at as u32));
    }
}
