//! Where messages and datagrams come from, and what happens where they arrive: they are measured, answered, or are work.

use lowtail_engine::{Duration, Time};

use super::job::Job;
use super::source::Source;
use super::{Event, Net, NetEvent};
use crate::flow::{Channel, Message, Role};
use crate::packet::{FlowId, Kind, Packet};
use crate::traffic::Pattern;

/// An echo that has had no answer for so long is lost where the next one waits for it, as `lab run --on kernel` has it.
const LOST_AFTER: Duration = Duration::from_ms(1_000);

impl Net {
    /// A message is there.
    pub(super) fn completed(&mut self, id: FlowId, message: Message) {
        let flow = &self.flows[id.index()];
        let (traffic, channel, dst) = (flow.traffic, flow.channel, flow.dst);
        match message.role {
            Role::OneWay => self.record(traffic, message.start, message.bytes),
            Role::Listed(at) => {
                let span = self.queue.now().since(message.start);
                self.stats[traffic as usize].completions[at as usize] = span;
                self.record(traffic, message.start, message.bytes);
            }
            Role::Reply => {
                self.record(traffic, message.start, message.bytes);
                self.go_on(channel);
            }
            Role::Request => {
                let job = self.jobs.put(Job::Reply { channel, start: message.start });
                let Pattern::Requests { service, .. } = self.configs[traffic as usize].pattern
                else {
                    return;
                };
                if self.ends[dst.index()].attached && !service.is_zero() {
                    self.out.push(NetEvent::Work { end: dst, process: 0, span: service, job });
                } else {
                    self.queue.after(service, Event::Served(job));
                }
            }
        }
    }

    /// The work for a request, or a packet, is done: the reply is sent.
    pub fn served(&mut self, job: u32) {
        self.reply(job);
        self.settle();
    }

    pub(super) fn reply(&mut self, job: u32) {
        let work = self.jobs[job];
        self.jobs.release(job);
        let (channel, start) = match work {
            Job::Reply { channel, start } => (channel, start),
            Job::Datagram(work) => return self.worked(work),
        };
        let Channel { back, source, .. } = self.channels[channel as usize];
        let source = &mut self.sources[source as usize];
        let Pattern::Requests { reply, .. } = self.configs[source.traffic as usize].pattern else {
            return;
        };
        let bytes = reply.draw(&mut source.rng);
        self.post(FlowId(back), bytes, start, Role::Reply);
    }

    /// Writes a message to a TCP stream.
    pub(super) fn post(&mut self, id: FlowId, bytes: u64, start: Time, role: Role) {
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize].tcp;
        flow.sender.write(bytes, config, now);
        flow.messages.push_back(Message { end: flow.sender.end, bytes, start, role });
        self.connect(id);
    }

    /// Counts what was begun at `start` and is there now.
    fn record(&mut self, traffic: u32, start: Time, bytes: u64) {
        let config = &self.configs[traffic as usize];
        if start < Time::ZERO + config.warmup {
            return;
        }
        let span = self.queue.now().since(start);
        let stats = &mut self.stats[traffic as usize];
        stats.latency.record(span);
        let bin = config.bins.partition_point(|&most| most < bytes);
        if let Some(bin) = stats.bins.get_mut(bin) {
            bin.record(span);
        }
    }

    /// In a closed loop the next one follows the answer.
    fn go_on(&mut self, channel: u32) {
        let source = self.channels[channel as usize].source;
        let Source { traffic, rng, .. } = &mut self.sources[source as usize];
        match self.configs[*traffic as usize].pattern {
            Pattern::Requests { gap, closed: true, .. }
            | Pattern::Ping { gap, closed: true, .. } => {
                let after = gap.draw(rng);
                self.queue.after(after, Event::Write(source));
            }
            _ => {}
        }
    }

    /// A source writes.
    pub(super) fn write(&mut self, index: u32) {
        let now = self.queue.now();
        let source = &mut self.sources[index as usize];
        let traffic = source.traffic as usize;
        let config = &self.configs[traffic];
        let enough = config.count > 0 && self.stats[traffic].latency.n() >= config.count;
        if enough || now.since(Time::ZERO) > config.until {
            return;
        }
        let pick = if source.n > 1 { source.rng.below(u64::from(source.n)) as u32 } else { 0 };
        let channel = source.first + pick;
        let forth = FlowId(self.channels[channel as usize].forth);
        if now >= Time::ZERO + config.warmup {
            self.stats[traffic].begun += 1;
        }
        let mut next = None;
        match config.pattern {
            Pattern::Listed => self.begin_listed(index),
            Pattern::Bulk => self.bulk(forth),
            Pattern::Transfer { bytes } => self.post(forth, bytes, now, Role::OneWay),
            Pattern::Messages { bytes, gap, .. } => {
                let bytes = bytes.draw(&mut source.rng);
                next = Some(gap.draw(&mut source.rng));
                let forth = self.stream(channel);
                self.post(forth, bytes, now, Role::OneWay);
            }
            Pattern::Requests { request, gap, closed, .. } => {
                next = (!closed).then(|| gap.draw(&mut source.rng));
                let forth = self.stream(channel);
                self.post(forth, request, now, Role::Request);
            }
            Pattern::Ping { bytes, gap, closed } => {
                next = (!closed).then(|| gap.draw(&mut source.rng));
                self.datagram_out(forth, Kind::Ping, bytes);
                if closed {
                    let flow = &mut self.flows[forth.index()];
                    flow.timer = now + LOST_AFTER;
                    // One event for each flow, however many are answered before it.
                    if flow.ack_timer == Time::NEVER {
                        flow.ack_timer = flow.timer;
                        self.queue.at(flow.timer, Event::Unanswered(forth));
                    }
                }
            }
            Pattern::Datagrams { bytes, gap } => {
                let bytes = bytes.draw(&mut source.rng).min(u64::from(u32::MAX / 2)) as u32;
                next = Some(gap.draw(&mut source.rng));
                self.datagram_out(forth, Kind::Datagram, bytes);
            }
        }
        if let Some(gap) = next {
            self.queue.after(gap, Event::Write(index));
        }
    }

    fn bulk(&mut self, id: FlowId) {
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize].tcp;
        // More than any run sends.
        flow.sender.write(1 << 60, config, now);
        self.connect(id);
    }

    fn datagram_out(&mut self, id: FlowId, kind: Kind, bytes: u32) {
        let mut packet = self.packet(id, kind, true);
        let flow = &mut self.flows[id.index()];
        flow.number += 1;
        (packet.payload, packet.seq) = (bytes, flow.number);
        self.emit(packet);
    }

    pub(super) fn datagram(&mut self, packet: &Packet) {
        let now = self.queue.now();
        let flow = &mut self.flows[packet.flow.index()];
        let traffic = flow.traffic;
        if now >= Time::ZERO + self.configs[traffic as usize].warmup {
            flow.delivered_bytes += u64::from(packet.payload);
            self.stats[traffic as usize].delivered_bytes += u64::from(packet.payload);
        }
        self.record(traffic, packet.sent, u64::from(packet.payload));
    }

    pub(super) fn answer(&mut self, ping: &Packet) {
        let pong = self.packet(ping.flow, Kind::Pong, false);
        self.emit(Packet { payload: ping.payload, sent: ping.sent, seq: ping.seq, ..pong });
    }

    pub(super) fn answered(&mut self, pong: &Packet) {
        let flow = &mut self.flows[pong.flow.index()];
        let (traffic, channel) = (flow.traffic, flow.channel);
        let closed =
            matches!(self.configs[traffic as usize].pattern, Pattern::Ping { closed: true, .. });
        // The next one has been sent for want of this answer.
        if closed && (pong.seq != flow.number || flow.timer == Time::NEVER) {
            return;
        }
        flow.timer = Time::NEVER;
        self.record(traffic, pong.sent, u64::from(pong.payload));
        self.go_on(channel);
    }

    /// An echo of a closed loop has had no answer for so long that there will be none: the next one follows.
    pub(super) fn unanswered(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        flow.ack_timer = Time::NEVER;
        // It has been answered, and perhaps the next one is under way.
        if flow.timer != self.queue.now() {
            if flow.timer != Time::NEVER {
                flow.ack_timer = flow.timer;
                self.queue.at(flow.timer, Event::Unanswered(id));
            }
            return;
        }
        flow.timer = Time::NEVER;
        let channel = flow.channel;
        self.go_on(channel);
    }
}
