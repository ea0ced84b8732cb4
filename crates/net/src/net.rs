//! The network in one clock: event after event.
//!
//! An event is the arrival of a packet at the end of a link, a transmitter that has become free,
//! a timer of TCP, or a source that writes. Handlers change the world and schedule; nothing else
//! does. Ends whose processor is simulated elsewhere are *attached*: what arrives for them, and
//! what they send, is handed out ([`Out`]) and handed in again when the processor has done its
//! part.

use lowtail_engine::{Calendar, Duration, Spread, Stream, Time};

use crate::flow::{Channel, Flow, Message, Role};
use crate::packet::{Ecn, End, FlowId, Kind, Packet, PacketId, Pool};
use crate::port::{Left, Port, PortId, Todo};
use crate::queue::{Cause, Cx};
use crate::slab::Slab;
use crate::tcp::sender::{News, Segment};
use crate::tcp::{Answer, Expiry, FLAG_ECHO, FLAG_SMALL_QUEUE, Receiver, Sack, Sender};
use crate::topology::Shape;
use crate::traffic::{Pattern, TrafficConfig, TrafficStats};

mod ahead;
mod shared;
mod tap;

pub use shared::SharedConfig;
pub use tap::{Sample, Tap, TapConfig};

/// Everything that can happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The first packet on the link of a port arrives.
    Arrive(PortId),
    /// A transmitter is free.
    Wake(PortId),
    /// A packet that stays in its machine arrives.
    Local(PacketId),
    /// A timer of a sender.
    Timer(FlowId),
    /// An acknowledgement has waited long enough.
    Acknowledge(FlowId),
    /// A source writes.
    Write(u32),
    /// The work for a request is done.
    Served(u32),
}

/// What an attached end is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out {
    /// A packet has arrived at its machine; call [`Net::receive`] when the end has it, or
    /// [`Net::lose`].
    Arrived {
        /// The end.
        end: End,
        /// The packet.
        id: PacketId,
    },
    /// The end sends a packet; call [`Net::transmit`] when it has come as far as the queue of the
    /// machine's NIC, [`Net::receive`] if it stays in the machine, or [`Net::lose`].
    Sends {
        /// The end.
        end: End,
        /// The packet.
        id: PacketId,
    },
    /// A process of the end has this to do; call [`Net::served`].
    Work {
        /// The end.
        end: End,
        /// Processor time.
        span: Duration,
        /// For [`Net::served`].
        job: u32,
    },
}

/// An end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndConfig {
    /// The machine that it is, or is on.
    pub host: u32,
    /// Its processor is simulated elsewhere.
    pub attached: bool,
}

/// A network.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// What it looks like.
    pub shape: Shape,
    /// The ends.
    pub ends: Vec<EndConfig>,
    /// Traffic by kind.
    pub traffic: Vec<TrafficConfig>,
    /// From an end to another one in the same machine, for those that are not attached.
    pub local_delay: Duration,
}

/// Work for a request.
#[derive(Debug, Clone, Copy)]
struct Job {
    channel: u32,
    start: Time,
}

/// Where writes come from.
#[derive(Debug)]
struct Source {
    traffic: u32,
    /// Its conversations.
    first: u32,
    n: u32,
    stream: Stream,
}

/// Frames: each one created is delivered, dropped or somewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// Sent by ends.
    pub sent: u64,
    /// Received by ends.
    pub received: u64,
    /// Dropped, by [`Cause`].
    pub dropped: [u64; Cause::ALL.len()],
}

/// End of a way in the table of routes.
const HERE: u32 = u32::MAX;
const NO_SACK: u32 = u32::MAX;

/// A network at work.
#[derive(Debug)]
pub struct Net {
    queue: Calendar<Event>,
    pool: Pool,
    ports: Vec<Port>,
    /// Ways, one after the other: numbers of ports, [`HERE`] at the end.
    routes: Vec<u32>,
    flows: Vec<Flow>,
    channels: Vec<Channel>,
    sources: Vec<Source>,
    ends: Vec<EndConfig>,
    configs: Vec<TrafficConfig>,
    stats: Vec<TrafficStats>,
    sacks: Slab<Sack>,
    jobs: Slab<Job>,
    local_delay: Duration,
    frames: Frames,
    taps: Vec<Tap>,
    shared: Option<Box<shared::Shared>>,
    /// What a call has left behind; empty between events.
    dropped: Vec<(PacketId, Cause)>,
    left: Vec<Left>,
    out: Vec<Out>,
}

impl Net {
    /// Builds the network, with all random streams drawn from `seed`. `ports` makes the port at
    /// each place, in the order of [`Shape::places`].
    pub fn new(config: &NetConfig, mut ports: Vec<Port>, seed: u64) -> Self {
        let mut links = Vec::new();
        ports.iter_mut().for_each(|port| port.share_link(&mut links));
        let mut net = Net {
            queue: Calendar::new(),
            pool: Pool::new(),
            ports,
            routes: Vec::new(),
            flows: Vec::new(),
            channels: Vec::new(),
            sources: Vec::new(),
            ends: config.ends.clone(),
            configs: config.traffic.clone(),
            stats: config.traffic.iter().map(|t| TrafficStats::new(t.bins.len())).collect(),
            sacks: Slab::new(),
            jobs: Slab::new(),
            local_delay: config.local_delay,
            frames: Frames::default(),
            taps: Vec::new(),
            shared: None,
            dropped: Vec::with_capacity(64),
            left: Vec::with_capacity(64),
            out: Vec::with_capacity(64),
        };
        for (i, traffic) in config.traffic.iter().enumerate() {
            net.open(&config.shape, i as u32, traffic, seed);
        }
        net
    }

    /// Opens the conversations of `traffic` and has its sources begin.
    fn open(&mut self, shape: &Shape, index: u32, traffic: &TrafficConfig, seed: u64) {
        let mut pairs = traffic.pairs.clone();
        let anywhere = matches!(traffic.pattern, Pattern::Messages { anywhere: true, .. });
        if anywhere {
            // Those of one source side by side, in the order in which the sources come.
            pairs.sort_by_key(|pair| pair.0);
        }
        let two_way = matches!(traffic.pattern, Pattern::Requests { .. });
        let mut last = None;
        for (src, dst) in pairs {
            let channel = self.channels.len() as u32;
            if !(anywhere && last == Some(src)) {
                let name = format!("traffic {} {} {}", traffic.name, src.0, dst.0);
                let mut stream = Stream::new(seed, &name);
                let first = match traffic.pattern {
                    Pattern::Bulk | Pattern::Transfer { .. } => Duration::ZERO,
                    Pattern::Messages { gap, .. }
                    | Pattern::Requests { gap, .. }
                    | Pattern::Ping { gap, .. }
                    | Pattern::Datagrams { gap, .. } => match gap {
                        // Sources with the same period are not in step.
                        Spread::Fixed(period) => stream.uniform(Duration::ZERO, period),
                        gap => gap.draw(&mut stream),
                    },
                };
                let source = self.sources.len() as u32;
                self.sources.push(Source { traffic: index, first: channel, n: 0, stream });
                self.queue.at(Time::ZERO + traffic.start + first, Event::Write(source));
            }
            last = Some(src);
            let source = self.sources.len() - 1;
            self.sources[source].n += 1;
            let forth = self.flow(shape, index, channel, (src, dst), seed);
            let back =
                if two_way { self.flow(shape, index, channel, (dst, src), seed) } else { forth };
            self.channels.push(Channel { forth, back, source: source as u32 });
        }
    }

    fn flow(
        &mut self,
        shape: &Shape,
        traffic: u32,
        channel: u32,
        (src, dst): (End, End),
        seed: u64,
    ) -> u32 {
        let id = self.flows.len() as u32;
        let (from, to) = (self.ends[src.index()].host, self.ends[dst.index()].host);
        // As a switch would have it from addresses and ports.
        let hash = |a: u32, b: u32| {
            let pair = u64::from(a) << 32 | u64::from(b);
            (pair ^ seed.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id)
        };
        let forth = self.way(shape, from, to, hash(src.0, dst.0));
        let back = self.way(shape, to, from, hash(dst.0, src.0));
        let config = &self.configs[traffic as usize].tcp;
        self.flows.push(Flow {
            src,
            dst,
            forth,
            back,
            traffic,
            channel,
            sender: Sender::new(config),
            receiver: Receiver::new(),
            timer: Time::NEVER,
            ack_timer: Time::NEVER,
            messages: std::collections::VecDeque::new(),
            delivered_bytes: 0,
            number: 0,
        });
        id
    }

    fn way(&mut self, shape: &Shape, from: u32, to: u32, hash: u64) -> u32 {
        let start = self.routes.len() as u32;
        let mut ports = Vec::new();
        shape.route(from, to, hash, &mut ports);
        self.routes.extend(ports.iter().map(|port| port.0));
        self.routes.push(HERE);
        start
    }

    /// Handles events up to `end`.
    pub fn run(&mut self, end: Time) {
        while self.step(end) {}
    }

    /// Handles one event, unless the next one is later than `end`. Returns whether it did.
    #[inline]
    pub fn step(&mut self, end: Time) -> bool {
        let Some((now, event)) = self.queue.pop_until(end) else { return false };
        self.look_ahead();
        match event {
            Event::Arrive(port) => {
                if let Some((id, next)) = self.ports[port.index()].arrive(now, &self.pool) {
                    if let Some(at) = next {
                        self.queue.at(at, Event::Arrive(port));
                    }
                    if self.ports[port.index()].tap.is_some() {
                        self.note(port, id);
                    }
                    self.forward(id);
                }
            }
            Event::Wake(port) => self.wake(port),
            Event::Local(id) => self.deliver(id),
            Event::Timer(id) => self.timer(id),
            Event::Acknowledge(id) => self.late_acknowledgement(id),
            Event::Write(source) => self.write(source),
            Event::Served(job) => self.reply(job),
        }
        self.settle();
        true
    }

    /// Sends `id` through the next port of its way, or delivers it.
    #[inline]
    fn forward(&mut self, id: PacketId) {
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
        let mut cx = Cx { now: self.queue.now(), pool: &mut self.pool, dropped: &mut self.dropped };
        let todo = self.ports[port.index()].enqueue(id, &mut cx, &mut self.left);
        self.follow(port, todo);
    }

    fn wake(&mut self, port: PortId) {
        let mut cx = Cx { now: self.queue.now(), pool: &mut self.pool, dropped: &mut self.dropped };
        let todo = self.ports[port.index()].wake(&mut cx, &mut self.left);
        self.follow(port, todo);
    }

    #[inline]
    fn follow(&mut self, port: PortId, todo: Todo) {
        if let Some(at) = todo.arrive {
            self.queue.at(at, Event::Arrive(port));
        }
        if let Some(at) = todo.wake {
            self.queue.at(at, Event::Wake(port));
        }
        if self.ports[port.index()].tap.is_some() {
            self.sample(port);
        }
    }

    /// Takes account of what was dropped and of what has left machines, until nothing is left.
    #[inline]
    fn settle(&mut self) {
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

    fn has_left(&mut self, left: Left) {
        let sender = &mut self.flows[left.flow.index()].sender;
        sender.below = sender.below.saturating_sub(u64::from(left.bytes));
        self.pump(left.flow);
    }

    #[cold]
    fn dispose(&mut self, id: PacketId, cause: Cause) {
        let packet = self.pool.take(id);
        self.free_sack(packet.sack);
        self.frames.dropped[cause as usize] += u64::from(packet.frames);
        let traffic = self.flows[packet.flow.index()].traffic;
        self.stats[traffic as usize].dropped += u64::from(packet.frames);
        if packet.kind == Kind::Data && packet.flags & FLAG_SMALL_QUEUE != 0 {
            self.left.push(Left { flow: packet.flow, bytes: packet.payload });
        }
    }

    /// `id` has arrived where it was to go.
    #[inline]
    fn deliver(&mut self, id: PacketId) {
        let dst = self.pool[id].dst;
        if self.ends[dst.index()].attached {
            self.out.push(Out::Arrived { end: dst, id });
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
            // No port on its way has told: plain ones do not, and within a machine there is none.
            self.left.push(Left { flow: packet.flow, bytes: packet.payload });
        }
        match packet.kind {
            Kind::Data => self.data(&packet),
            Kind::Ack => self.acknowledged(&packet),
            Kind::Datagram => self.datagram(&packet),
            Kind::Ping => self.answer(&packet),
            Kind::Pong => self.answered(&packet),
        }
    }

    /// `id` is lost in its machine.
    pub fn lose(&mut self, id: PacketId) {
        self.dispose(id, Cause::Host);
        self.settle();
    }

    /// `id` has come to the queue of its machine's NIC.
    pub fn transmit(&mut self, id: PacketId) {
        self.forward(id);
        self.settle();
    }

    /// Sends `packet`: hands it out, or puts it on its way.
    #[inline]
    fn emit(&mut self, packet: Packet) {
        self.frames.sent += u64::from(packet.frames);
        let (src, route) = (packet.src, packet.route);
        let id = self.pool.put(packet);
        if self.ends[src.index()].attached {
            self.out.push(Out::Sends { end: src, id });
        } else if self.routes[route as usize] == HERE {
            self.queue.after(self.local_delay, Event::Local(id));
        } else {
            self.forward(id);
        }
    }

    /// A packet of `id`, from its source if `onward`, else back; without payload.
    #[inline]
    fn packet(&self, id: FlowId, kind: Kind, onward: bool) -> Packet {
        let flow = &self.flows[id.index()];
        let (src, dst, route) =
            if onward { (flow.src, flow.dst, flow.forth) } else { (flow.dst, flow.src, flow.back) };
        Packet {
            seq: 0,
            ack: 0,
            sent: self.queue.now(),
            queued: self.queue.now(),
            flow: id,
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
        }
    }

    /// Sends all that the sender of `id` may send now.
    fn pump(&mut self, id: FlowId) {
        let now = self.queue.now();
        loop {
            let flow = &mut self.flows[id.index()];
            let config = &self.configs[flow.traffic as usize];
            let Some(segment) = flow.sender.next_segment(&config.tcp, now) else { break };
            self.send_segment(id, segment);
        }
        self.arm(id);
    }

    fn send_segment(&mut self, id: FlowId, segment: Segment) {
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
            flow.sender.below += u64::from(segment.payload);
        }
        if config.reveal {
            let at = flow.messages.partition_point(|message| message.end <= segment.seq);
            packet.ack =
                flow.messages.get(at).map_or(u64::MAX, |message| message.end - segment.seq);
        }
        self.emit(packet);
    }

    /// Sees to it that the sender's deadline is met.
    #[inline]
    fn arm(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        let deadline = flow.sender.deadline;
        // One that comes too early is simply set again; nearly all are.
        if deadline < flow.timer {
            flow.timer = deadline;
            self.queue.at(deadline.max(self.queue.now()), Event::Timer(id));
        }
    }

    fn timer(&mut self, id: FlowId) {
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        if now != flow.timer {
            // An earlier one has taken its place since.
            return;
        }
        flow.timer = Time::NEVER;
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
    fn data(&mut self, packet: &Packet) {
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
        let news = flow.receiver.next - before;
        if news > 0 && now >= Time::ZERO + config.warmup {
            flow.delivered_bytes += news;
            self.stats[flow.traffic as usize].delivered_bytes += news;
        }
        match answer {
            Answer::Now => self.acknowledge(id),
            Answer::By(at) if flow.ack_timer == Time::NEVER => {
                flow.ack_timer = at;
                self.queue.at(at, Event::Acknowledge(id));
            }
            Answer::By(_) | Answer::Wait => {}
        }
        if news == 0 {
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

    fn late_acknowledgement(&mut self, id: FlowId) {
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

    fn free_sack(&mut self, sack: u32) {
        if sack != NO_SACK {
            self.sacks.release(sack);
        }
    }

    fn acknowledged(&mut self, packet: &Packet) {
        let (id, now) = (packet.flow, self.queue.now());
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize].tcp;
        let sack = (packet.sack != NO_SACK).then(|| &self.sacks[packet.sack]);
        let news = News {
            ack: packet.ack,
            sack,
            rtt: now.saturating_since(packet.sent),
            cause: Time::from_ps(packet.seq),
            marked: packet.flags & FLAG_ECHO != 0,
        };
        flow.sender.acked(&news, config, now);
        self.free_sack(packet.sack);
        self.pump(id);
    }

    /// A message is there.
    fn completed(&mut self, id: FlowId, message: Message) {
        let flow = &self.flows[id.index()];
        let (traffic, channel, dst) = (flow.traffic, flow.channel, flow.dst);
        match message.role {
            Role::OneWay => self.record(traffic, message.start, message.bytes),
            Role::Reply => {
                self.record(traffic, message.start, message.bytes);
                self.go_on(channel);
            }
            Role::Request => {
                let job = self.jobs.put(Job { channel, start: message.start });
                let Pattern::Requests { service, .. } = self.configs[traffic as usize].pattern
                else {
                    return;
                };
                if self.ends[dst.index()].attached && !service.is_zero() {
                    self.out.push(Out::Work { end: dst, span: service, job });
                } else {
                    self.queue.after(service, Event::Served(job));
                }
            }
        }
    }

    /// The work for a request is done: the reply is sent.
    pub fn served(&mut self, job: u32) {
        self.reply(job);
        self.settle();
    }

    fn reply(&mut self, job: u32) {
        let Job { channel, start } = self.jobs[job];
        self.jobs.release(job);
        let Channel { back, source, .. } = self.channels[channel as usize];
        let source = &mut self.sources[source as usize];
        let Pattern::Requests { reply, .. } = self.configs[source.traffic as usize].pattern else {
            return;
        };
        let bytes = reply.draw(&mut source.stream);
        self.post(FlowId(back), bytes, start, Role::Reply);
    }

    /// Writes a message to a TCP stream.
    fn post(&mut self, id: FlowId, bytes: u64, start: Time, role: Role) {
        let now = self.queue.now();
        let flow = &mut self.flows[id.index()];
        let config = &self.configs[flow.traffic as usize].tcp;
        flow.sender.write(bytes, config, now);
        flow.messages.push_back(Message { end: flow.sender.end, bytes, start, role });
        self.pump(id);
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
        let Source { traffic, stream, .. } = &mut self.sources[source as usize];
        match self.configs[*traffic as usize].pattern {
            Pattern::Requests { gap, closed: true, .. }
            | Pattern::Ping { gap, closed: true, .. } => {
                let after = gap.draw(stream);
                self.queue.after(after, Event::Write(source));
            }
            _ => {}
        }
    }

    /// A source writes.
    fn write(&mut self, index: u32) {
        let now = self.queue.now();
        let source = &mut self.sources[index as usize];
        let traffic = source.traffic as usize;
        let config = &self.configs[traffic];
        let enough = config.count > 0 && self.stats[traffic].latency.n() >= config.count;
        if enough || now.since(Time::ZERO) > config.until {
            return;
        }
        let pick = if source.n > 1 { source.stream.below(u64::from(source.n)) as u32 } else { 0 };
        let channel = source.first + pick;
        let forth = FlowId(self.channels[channel as usize].forth);
        if now >= Time::ZERO + config.warmup {
            self.stats[traffic].begun += 1;
        }
        let mut next = None;
        match config.pattern {
            Pattern::Bulk => self.bulk(forth),
            Pattern::Transfer { bytes } => self.post(forth, bytes, now, Role::OneWay),
            Pattern::Messages { bytes, gap, .. } => {
                let bytes = bytes.draw(&mut source.stream);
                next = Some(gap.draw(&mut source.stream));
                self.post(forth, bytes, now, Role::OneWay);
            }
            Pattern::Requests { request, gap, closed, .. } => {
                next = (!closed).then(|| gap.draw(&mut source.stream));
                self.post(forth, request, now, Role::Request);
            }
            Pattern::Ping { bytes, gap, closed } => {
                next = (!closed).then(|| gap.draw(&mut source.stream));
                self.datagram_out(forth, Kind::Ping, bytes);
            }
            Pattern::Datagrams { bytes, gap } => {
                let bytes = bytes.draw(&mut source.stream).min(u64::from(u32::MAX / 2)) as u32;
                next = Some(gap.draw(&mut source.stream));
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
        self.pump(id);
    }

    fn datagram_out(&mut self, id: FlowId, kind: Kind, bytes: u32) {
        let mut packet = self.packet(id, kind, true);
        let flow = &mut self.flows[id.index()];
        flow.number += 1;
        (packet.payload, packet.seq) = (bytes, flow.number);
        self.emit(packet);
    }

    fn datagram(&mut self, packet: &Packet) {
        let now = self.queue.now();
        let flow = &mut self.flows[packet.flow.index()];
        let traffic = flow.traffic;
        if now >= Time::ZERO + self.configs[traffic as usize].warmup {
            flow.delivered_bytes += u64::from(packet.payload);
            self.stats[traffic as usize].delivered_bytes += u64::from(packet.payload);
        }
        self.record(traffic, packet.sent, u64::from(packet.payload));
    }

    fn answer(&mut self, ping: &Packet) {
        let pong = self.packet(ping.flow, Kind::Pong, false);
        self.emit(Packet { payload: ping.payload, sent: ping.sent, seq: ping.seq, ..pong });
    }

    fn answered(&mut self, pong: &Packet) {
        let flow = &self.flows[pong.flow.index()];
        let (traffic, channel) = (flow.traffic, flow.channel);
        self.record(traffic, pong.sent, u64::from(pong.payload));
        self.go_on(channel);
    }

    /// When the next event is; `None` if nothing is still to come.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        self.queue.next_time()
    }

    /// Moves the clock to `now`, at which something comes in from outside.
    ///
    /// # Panics
    /// If that is past, or an event is still to come before it.
    pub fn advance(&mut self, now: Time) {
        self.queue.advance_to(now);
    }

    /// Now: the time of the last event, or what [`advance`](Self::advance) said.
    pub fn now(&self) -> Time {
        self.queue.now()
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.queue.popped()
    }

    /// What attached ends are to do; empty it after each call.
    pub fn out(&mut self) -> &mut Vec<Out> {
        &mut self.out
    }

    /// The packets.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The ports, in the order of [`Shape::places`].
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Frames sent, received and dropped.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// What the traffic of each kind has come to.
    pub fn stats(&self) -> &[TrafficStats] {
        &self.stats
    }

    /// Payload delivered to each pair of traffic number `traffic`, since the warm-up.
    pub fn delivered(&self, traffic: usize) -> impl Iterator<Item = u64> + '_ {
        let own = move |flow: &&Flow| flow.traffic as usize == traffic;
        self.flows.iter().filter(own).map(|flow| flow.delivered_bytes)
    }

    /// Whether all traffic with a count has been measured; `None` if there is none.
    pub fn done(&self) -> Option<bool> {
        let counted = self.configs.iter().zip(&self.stats).filter(|(config, _)| config.count > 0);
        let mut counted =
            counted.map(|(config, stats)| stats.latency.n() >= config.count).peekable();
        counted.peek().is_some().then(|| counted.all(|done| done))
    }
}
