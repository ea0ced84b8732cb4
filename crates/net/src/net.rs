//! The network in one clock: event after event.
//!
//! An event is the arrival of a packet at the end of a link, a transmitter that has become free,
//! a timer of TCP, or a source that writes. Handlers change the world and schedule; nothing else
//! does. Ends whose processor is simulated elsewhere are *attached*: what arrives for them, and
//! what they send, is handed out ([`NetEvent`]) and handed in again when the processor has done its
//! part.

use std::collections::VecDeque;

use lowtail_engine::{Calendar, Duration, Rng, Time};

use crate::datagram::{DatagramConfig, DatagramFlow};
use crate::flow::{Channel, Flow};
use crate::packet::{End, FlowId, PacketId, Pool};
use crate::port::{Port, PortId, TxCompletion};
use crate::queue::Cause;
use crate::slab::Slab;
use crate::tcp::Sack;
use crate::topology::Shape;
use crate::traffic::{TrafficConfig, TrafficStats};

mod admission;
mod ahead;
mod blame;
mod capture;
mod connection;
mod datagrams;
mod handshake;
mod hop;
mod job;
mod matrix;
mod messages;
mod open;
mod shared;
mod source;
mod tap;
mod watched;

use blame::Classes;
pub use blame::{BlameConfig, PortBlame, Waiter};
use job::Job;
pub use shared::SharedConfig;
use source::Source;
pub use tap::{Sample, Tap, TapConfig};

/// Everything that can happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The first packet on the link of a port arrives.
    Arrive(PortId),
    /// A transmitter is free.
    Wake(PortId),
    /// A packet that stays in its host arrives.
    Local(PacketId),
    /// A timer of a sender.
    Timer(FlowId),
    /// An acknowledgement has waited long enough.
    Acknowledge(FlowId),
    /// A source writes.
    Write(u32),
    /// The work for a request is done.
    Served(u32),
    /// It is time for a datagram flow to send its next packet.
    Send(u32),
    /// The time has come to send a lost packet of a datagram flow again.
    Resend(u32),
    /// An echo that the next one waits for is late enough to be lost.
    Unanswered(FlowId),
}

/// What an attached end is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetEvent {
    /// A packet has arrived at its host; call [`Net::receive`] when the end has it, or
    /// [`Net::lose`].
    Arrived {
        /// The end.
        end: End,
        /// The packet.
        id: PacketId,
    },
    /// The end sends a packet; call [`Net::transmit`] when it has come as far as the queue of the
    /// host's NIC, [`Net::receive`] if it stays in the host, or [`Net::lose`].
    Sends {
        /// The end.
        end: End,
        /// The packet.
        id: PacketId,
    },
    /// The same, by a process of the end: it sends what it is given in that order, as there is room.
    Writes {
        /// The end.
        end: End,
        /// The packet.
        id: PacketId,
        /// The number of the process.
        process: u16,
    },
    /// A process of the end has this to do; call [`Net::served`].
    Work {
        /// The end.
        end: End,
        /// The number of the process.
        process: u16,
        /// Processor time.
        span: Duration,
        /// For [`Net::served`].
        job: u32,
    },
}

/// An end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndConfig {
    /// The host that it is, or is on.
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
    /// Datagram flows; a packet of flow number `i` has the hash `i`.
    pub datagrams: Vec<DatagramConfig>,
    /// From an end to another one in the same machine, for those that are not attached.
    pub local_delay: Duration,
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
    datagrams: Vec<DatagramFlow>,
    /// For each end the datagram flows with a window that end there; empty if there are none at all.
    windows: Vec<Vec<u32>>,
    sacks: Slab<Sack>,
    jobs: Slab<Job>,
    /// Connections that are closed, and from when on others may have their places; with one flow, and with two.
    closed: [VecDeque<(Time, u32)>; 2],
    /// Flows that have been opened.
    opened: u64,
    /// Random numbers of links that lose packets, by port; none if no link does.
    losses: Vec<Rng>,
    shape: Shape,
    seed: u64,
    local_delay: Duration,
    frames: Frames,
    taps: Vec<Tap>,
    blame: Option<Box<Classes>>,
    shared: Option<Box<shared::Shared>>,
    /// What a call has left behind; empty between events.
    dropped: Vec<(PacketId, Cause)>,
    left: Vec<TxCompletion>,
    out: Vec<NetEvent>,
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
            stats: config.traffic.iter().map(TrafficStats::new).collect(),
            datagrams: Vec::with_capacity(config.datagrams.len()),
            windows: Vec::new(),
            sacks: Slab::new(),
            jobs: Slab::new(),
            closed: [VecDeque::new(), VecDeque::new()],
            opened: 0,
            losses: Vec::new(),
            shape: config.shape,
            seed,
            local_delay: config.local_delay,
            frames: Frames::default(),
            taps: Vec::new(),
            blame: None,
            shared: None,
            dropped: Vec::with_capacity(64),
            left: Vec::with_capacity(64),
            out: Vec::with_capacity(64),
        };
        if net.ports.iter().any(|port| port.link().loss_per_billion > 0) {
            let rng = |port| Rng::new(seed, &format!("loss {port}"));
            net.losses = (0..net.ports.len()).map(rng).collect();
        }
        for (i, traffic) in config.traffic.iter().enumerate() {
            net.open(i as u32, traffic);
        }
        for datagrams in &config.datagrams {
            net.open_datagrams(&config.shape, datagrams, seed);
        }
        net
    }

    /// Handles events up to `end`.
    pub fn run(&mut self, end: Time) {
        while self.step(end) {}
    }

    /// Handles one event, unless the next one is later than `end`. Returns whether it did.
    #[inline]
    pub fn step(&mut self, end: Time) -> bool {
        let Some((now, event)) = self.queue.pop_until(end) else { return false };
        if !self.flows.is_empty() {
            self.look_ahead();
        }
        match event {
            Event::Arrive(port) => {
                if let Some((id, next)) = self.ports[port.index()].arrive(now, &self.pool) {
                    if let Some(at) = next {
                        self.queue.at(at, Event::Arrive(port));
                    }
                    if !self.losses.is_empty() && self.lost_on_link(port) {
                        self.dropped.push((id, Cause::Link));
                    } else {
                        if self.ports[port.index()].tap.is_some() {
                            self.note(port, id);
                        }
                        self.forward(id);
                    }
                }
            }
            Event::Wake(port) => self.wake(port),
            Event::Local(id) => self.deliver(id),
            Event::Timer(id) => self.timer(id),
            Event::Acknowledge(id) => self.late_acknowledgement(id),
            Event::Write(source) => self.write(source),
            Event::Served(job) => self.reply(job),
            Event::Send(flow) => self.send_datagrams(flow),
            Event::Resend(flow) => self.resend(flow),
            Event::Unanswered(flow) => self.unanswered(flow),
        }
        self.settle();
        true
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
    #[inline]
    pub fn advance(&mut self, now: Time) {
        let advanced = self.queue.advance_to(now);
        assert!(advanced.is_ok(), "to {now:?}: {advanced:?}");
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
    pub fn out(&mut self) -> &mut Vec<NetEvent> {
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

    /// The datagram flows, in the order of the configuration.
    pub fn datagrams(&self) -> &[DatagramFlow] {
        &self.datagrams
    }

    /// Frames sent, received and dropped.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Figures of the traffic of each kind.
    pub fn stats(&self) -> &[TrafficStats] {
        &self.stats
    }

    /// Payload delivered to each pair of traffic number `traffic`, since the warm-up.
    pub fn delivered(&self, traffic: usize) -> impl Iterator<Item = u64> + '_ {
        let flows = self.flows.iter().enumerate();
        let own = move |(id, flow): &(usize, &Flow)| {
            flow.traffic as usize == traffic && flow.counts_for as usize == *id
        };
        flows.filter(own).map(|(_, flow)| flow.delivered_bytes)
    }

    /// Whether all traffic with a count, and all requests of datagram flows, have been measured;
    /// `None` if there are none.
    pub fn done(&self) -> Option<bool> {
        let counted = self.configs.iter().zip(&self.stats).filter(|(config, _)| config.count > 0);
        let counted = counted.map(|(config, stats)| stats.latency.n() >= config.count);
        let datagrams = self.datagrams.iter().filter_map(DatagramFlow::done);
        let mut counted = counted.chain(datagrams).peekable();
        counted.peek().is_some().then(|| counted.all(|done| done))
    }
}
