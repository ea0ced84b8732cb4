//! Traffic: streams and requests, and the machines at the other end of the wires.
//!
//! A flow runs between a guest and a machine outside, or between two guests. Streams are
//! open (a packet at a time, whatever becomes of it) or keep a number of packets in flight;
//! who receives acknowledges every second packet, and the rest when it has caught up. There
//! is no congestion control here: a lost packet of a window is sent again after
//! [`RESEND_AFTER`].

use lowtail_engine::{Duration, Hist, Rng, Time};

use super::packet::{FlowId, Foreign, HEADER_BYTES, Kind, MTU_BYTES, Packet};
use crate::ids::Dom;
use lowtail_engine::Distribution;

/// After how long a lost packet of a window is sent again: Linux's least time-out
/// (`TCP_RTO_MIN`, 200 ms).
pub const RESEND_AFTER: Duration = Duration::from_ms(200);

/// Bytes of an IP packet that carries an acknowledgement: two headers and time stamps.
const ACK_BYTES: u32 = 52;

/// Where a flow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From outside, through this NIC, to the guest.
    In {
        /// The NIC.
        nic: u16,
    },
    /// From the guest, through this NIC, to the outside.
    Out {
        /// The NIC.
        nic: u16,
    },
    /// From the guest to another one on this host.
    Between {
        /// Who receives.
        to: Dom,
    },
}

/// When a flow's packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One after another with this gap, whatever becomes of them; `None` is as fast as the
    /// wire takes them.
    Open(Option<Distribution>),
    /// So many packets in flight.
    Window(u16),
    /// A request after this gap from the last one, answered or not; answers are measured.
    Requests(Distribution),
}

/// A flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowConfig {
    /// The guest: who receives what comes in, who sends what goes out.
    pub dom: Dom,
    /// Where it runs.
    pub way: Way,
    /// When.
    pub pace: Pace,
    /// Payload of a packet, 1 to 65,000; more than 1472 is an aggregate.
    pub payload_bytes: u32,
    /// Payload of an answer.
    pub reply_bytes: u32,
    /// Work of a process in the guest for each request; zero: the kernel answers, as it
    /// does a ping.
    pub service: Duration,
    /// Requests to measure.
    pub requests: u64,
    /// What comes before is not measured.
    pub warmup: Duration,
    /// After this nothing is sent any more.
    pub until: Duration,
}

impl FlowConfig {
    /// The guest that receives; `None` is the outside.
    pub fn receiver(&self) -> Option<Dom> {
        match self.way {
            Way::In { .. } => Some(self.dom),
            Way::Out { .. } => None,
            Way::Between { to } => Some(to),
        }
    }
}

/// A flow under way.
#[derive(Debug)]
pub struct Flow {
    /// What it is.
    pub config: FlowConfig,
    /// Packets of a window that are on their way.
    pub in_flight: u32,
    /// Packets that have arrived and are not acknowledged.
    pub unacked: u8,
    rng: Rng,
    /// Payload that has arrived, in bytes.
    delivered: u64,
    /// Packets that have arrived.
    packets: u64,
    lost: u64,
    /// Of these, packets that had a place to go to: data and requests.
    lost_data: u64,
    sent: u64,
    latency: Hist,
}

impl Flow {
    pub(super) fn new(config: FlowConfig, rng: Rng) -> Self {
        Flow {
            config,
            in_flight: 0,
            unacked: 0,
            rng,
            delivered: 0,
            packets: 0,
            lost: 0,
            lost_data: 0,
            sent: 0,
            latency: Hist::new(),
        }
    }

    /// A packet of this flow's kind, sent now.
    pub fn packet(&self, id: FlowId, now: Time) -> Packet {
        let kind = match self.config.pace {
            Pace::Requests(_) => Kind::Request,
            _ => Kind::Data,
        };
        let bytes = self.config.payload_bytes + HEADER_BYTES;
        Packet { sent: now, bytes, flow: id, kind, acks: 0, foreign: Foreign::NONE }
    }

    /// The answer to `request`.
    pub fn reply(&self, request: &Packet) -> Packet {
        let bytes = self.config.reply_bytes + HEADER_BYTES;
        Packet { bytes, kind: Kind::Reply, ..*request }
    }

    /// Whether another packet may be sent at `now`.
    pub fn may_send(&self, now: Time) -> bool {
        let over = now.since(Time::ZERO) > self.config.until;
        !over
            && match self.config.pace {
                Pace::Window(window) => self.in_flight < u32::from(window),
                Pace::Open(_) => true,
                Pace::Requests(_) => self.latency.n() < self.config.requests,
            }
    }

    pub(super) fn draw_gap(&mut self) -> Option<Duration> {
        match self.config.pace {
            Pace::Open(gap) => gap.map(|gap| gap.draw(&mut self.rng)),
            Pace::Requests(gap) => Some(gap.draw(&mut self.rng)),
            Pace::Window(_) => None,
        }
    }

    pub(super) fn draw_start(&mut self) -> Duration {
        self.rng.uniform(Duration::ZERO, Duration::from_ms(1))
    }

    /// A packet of the flow has been sent.
    pub fn sent(&mut self) {
        self.sent += 1;
        self.in_flight += u32::from(matches!(self.config.pace, Pace::Window(_)));
    }

    /// `packet`, data, is where it was to go. Returns the acknowledgement if one is due:
    /// for every second packet, and for each aggregate.
    pub fn arrived(&mut self, packet: &Packet, now: Time) -> Option<Packet> {
        self.packets += 1;
        if now >= Time::ZERO + self.config.warmup {
            self.delivered += u64::from(packet.bytes - HEADER_BYTES);
        }
        if !matches!(self.config.pace, Pace::Window(_)) {
            return None;
        }
        self.unacked += 1;
        let due = self.unacked >= 2 || packet.bytes > MTU_BYTES;
        due.then(|| self.ack(packet.flow, now)).flatten()
    }

    /// The acknowledgement of what has not been acknowledged.
    pub fn ack(&mut self, id: FlowId, now: Time) -> Option<Packet> {
        let acks = std::mem::take(&mut self.unacked);
        (acks > 0).then_some(Packet {
            sent: now,
            bytes: ACK_BYTES,
            flow: id,
            kind: Kind::Ack,
            acks,
            foreign: Foreign::NONE,
        })
    }

    /// `acks` packets are not in flight any longer.
    pub fn acked(&mut self, acks: u8) {
        self.in_flight = self.in_flight.saturating_sub(u32::from(acks));
    }

    /// The answer to what was sent at `sent` has arrived.
    pub(super) fn answered(&mut self, sent: Time, now: Time) {
        if sent >= Time::ZERO + self.config.warmup {
            self.latency.record(now.since(sent));
        }
    }

    pub(super) fn count_loss(&mut self, kind: Kind) {
        self.lost += 1;
        self.lost_data += u64::from(matches!(kind, Kind::Data | Kind::Request));
    }

    /// Packets of data, or requests, that were sent.
    pub fn packets_sent(&self) -> u64 {
        self.sent
    }

    /// Packets of data that have arrived, the warm-up included.
    pub fn packets_arrived(&self) -> u64 {
        self.packets
    }

    /// Packets of data, or requests, that were lost.
    pub fn packets_lost(&self) -> u64 {
        self.lost_data
    }

    /// Payload that has arrived since the warm-up, in bytes.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered
    }

    /// Packets that were lost, answers and acknowledgements among them: no room in a ring or
    /// a queue.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// From request to answer, as the machine outside sees it.
    pub fn latency(&self) -> &Hist {
        &self.latency
    }

    /// Whether all is measured that was asked for; `None` if nothing was.
    pub fn done(&self) -> Option<bool> {
        let requests = matches!(self.config.pace, Pace::Requests(_)) && self.config.requests > 0;
        requests.then(|| self.latency.n() >= self.config.requests)
    }
}
