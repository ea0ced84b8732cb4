//! Datagram flows: streams and requests without congestion control, and what has become of them.
//!
//! A flow runs from one end to another. Streams are open (a packet at a time, whatever becomes
//! of it) or keep a number of packets in flight; the receiver acknowledges every second packet,
//! and the rest when it has caught up. A lost packet of a window is sent again after
//! [`RESEND_AFTER`]. A request is answered by the kernel of the end that it goes to, or by a
//! process there that works for it first.

use lowtail_engine::{Distribution, Duration, Hist, Rng, Time};

use crate::packet::{End, Kind, MSS_BYTES, MTU_BYTES, TCP_HEADER_BYTES, UDP_HEADER_BYTES};

/// After how long a lost packet of a window is sent again: Linux's least time-out
/// (`TCP_RTO_MIN`, 200 ms).
pub const RESEND_AFTER: Duration = Duration::from_ms(200);

/// Packets that wait for a process: about what Linux's socket buffer of 208 KB has room for.
pub const SOCKET_PACKETS: u32 = 150;

/// Packets of an open flow that an attached end has in its machine at a time: more than a ring
/// of 256 and a batch that is taken out of it, so that the ring is always full.
const IN_MACHINE_MAX: u32 = 512;

/// Payload that makes an acknowledgement as long as one of TCP with time stamps: 52 bytes.
pub(crate) const RECEIPT_PAYLOAD: u32 = TCP_HEADER_BYTES - UDP_HEADER_BYTES;

/// When a flow's packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One after another with this gap, whatever becomes of them; `None` is as fast as the first
    /// port of the way, or the process of an attached end, takes them.
    Open(Option<Distribution>),
    /// So many packets in flight.
    Window(u16),
    /// A request after this gap from the last one, answered or not; answers are measured.
    Requests(Distribution),
}

/// A datagram flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatagramConfig {
    /// The end that sends, or asks.
    pub src: End,
    /// The end that receives, or answers.
    pub dst: End,
    /// When its packets are sent.
    pub pace: Pace,
    /// When the first one is.
    pub start: Distribution,
    /// Payload of a packet, 1 to 65,000; more than 1472 is an aggregate.
    pub payload_bytes: u32,
    /// Payload of an answer, 1 to 65,000.
    pub reply_bytes: u32,
    /// Work of a process of an attached `dst` for each packet; zero: the kernel receives and
    /// answers, as it does a ping.
    pub service: Duration,
    /// Number of the process of an attached `src` that sends.
    pub src_process: u16,
    /// Number of the process of an attached `dst` that works.
    pub dst_process: u16,
    /// Requests to measure.
    pub requests: u64,
    /// What comes before is not measured.
    pub warmup: Duration,
    /// After this nothing is sent any more.
    pub until: Duration,
}

/// A datagram flow under way.
#[derive(Debug)]
pub struct DatagramFlow {
    /// What it is.
    pub config: DatagramConfig,
    /// Where the ways there and back begin in the table of routes.
    pub(crate) forth: u32,
    pub(crate) back: u32,
    /// Packets of a window that are on their way.
    pub(crate) in_flight: u32,
    /// Packets of an open flow that are in the machine of the attached end that sends them.
    pub(crate) in_machine: u32,
    /// Packets that wait for the process that works for them, or are worked for.
    pub(crate) at_process: u32,
    /// Packets that have arrived and are not acknowledged.
    pub(crate) unacked: u32,
    rng: Rng,
    delivered_bytes: u64,
    arrived: u64,
    lost: u64,
    /// Of these, data and requests.
    lost_data: u64,
    sent: u64,
    latency: Hist,
}

/// Frames that an IP packet of `bytes` makes: TCP cuts an aggregate up, and repeats its headers.
fn frames_of(bytes: u32) -> u16 {
    1 + bytes.saturating_sub(MTU_BYTES).div_ceil(MSS_BYTES) as u16
}

impl DatagramFlow {
    /// Flow number `index` at rest, with ways that begin at `forth` and `back`.
    pub(crate) fn new(
        config: DatagramConfig,
        (forth, back): (u32, u32),
        index: u32,
        seed: u64,
    ) -> Self {
        DatagramFlow {
            config,
            forth,
            back,
            in_flight: 0,
            in_machine: 0,
            at_process: 0,
            unacked: 0,
            rng: Rng::new(seed, &format!("flow {index}")),
            delivered_bytes: 0,
            arrived: 0,
            lost: 0,
            lost_data: 0,
            sent: 0,
            latency: Hist::new(),
        }
    }

    /// What its packets are, their payload, and how many frames each makes.
    pub(crate) fn packet(&self) -> (Kind, u32, u16) {
        let kind = match self.config.pace {
            Pace::Requests(_) => Kind::Request,
            Pace::Open(_) | Pace::Window(_) => Kind::Chunk,
        };
        let payload = self.config.payload_bytes;
        (kind, payload, frames_of(payload + UDP_HEADER_BYTES))
    }

    /// Payload of an answer, and how many frames it makes.
    pub(crate) fn reply(&self) -> (u32, u16) {
        let payload = self.config.reply_bytes;
        (payload, frames_of(payload + UDP_HEADER_BYTES))
    }

    /// Whether it keeps a number of packets in flight.
    pub(crate) fn is_window(&self) -> bool {
        matches!(self.config.pace, Pace::Window(_))
    }

    /// Whether another packet may be sent at `now`.
    pub(crate) fn may_send(&self, now: Time) -> bool {
        let over = now.since(Time::ZERO) > self.config.until;
        !over
            && match self.config.pace {
                Pace::Window(window) => self.in_flight < u32::from(window),
                Pace::Open(_) => true,
                Pace::Requests(_) => self.latency.n() < self.config.requests,
            }
    }

    /// Whether the machine of the attached end that sends has room for another packet.
    pub(crate) fn has_room(&self) -> bool {
        self.is_window() || self.in_machine < IN_MACHINE_MAX
    }

    /// Whether nothing but room says when its next packet is sent.
    pub(crate) fn has_no_gap(&self) -> bool {
        matches!(self.config.pace, Pace::Open(None))
    }

    pub(crate) fn draw_start(&mut self) -> Duration {
        self.config.start.draw(&mut self.rng)
    }

    /// From one packet to the next, if the pace says so.
    pub(crate) fn draw_gap(&mut self) -> Option<Duration> {
        match self.config.pace {
            Pace::Open(gap) => gap.map(|gap| gap.draw(&mut self.rng)),
            Pace::Requests(gap) => Some(gap.draw(&mut self.rng)),
            Pace::Window(_) => None,
        }
    }

    /// A packet is sent.
    pub(crate) fn count_sent(&mut self) {
        self.sent += 1;
        self.in_flight += u32::from(self.is_window());
    }

    /// A packet of a stream with `payload` bytes has arrived. Returns for how many packets an
    /// acknowledgement is due: for every second packet, and for each aggregate.
    pub(crate) fn count_arrived(&mut self, payload: u32, now: Time) -> u32 {
        self.arrived += 1;
        if now >= Time::ZERO + self.config.warmup {
            self.delivered_bytes += u64::from(payload);
        }
        if !self.is_window() {
            return 0;
        }
        self.unacked += 1;
        let due = self.unacked >= 2 || payload + UDP_HEADER_BYTES > MTU_BYTES;
        if due { self.acknowledge() } else { 0 }
    }

    /// How many packets there are to be acknowledged; they are, now.
    pub(crate) fn acknowledge(&mut self) -> u32 {
        std::mem::take(&mut self.unacked)
    }

    /// So many `packets` are not in flight any longer.
    pub(crate) fn count_acknowledged(&mut self, packets: u32) {
        self.in_flight = self.in_flight.saturating_sub(packets);
    }

    /// The answer to what was sent at `sent` has arrived.
    pub(crate) fn count_answered(&mut self, sent: Time, now: Time) {
        if sent >= Time::ZERO + self.config.warmup {
            self.latency.record(now.since(sent));
        }
    }

    /// A packet is lost.
    pub(crate) fn count_lost(&mut self, kind: Kind) {
        self.lost += 1;
        self.lost_data += u64::from(matches!(kind, Kind::Chunk | Kind::Request));
    }

    /// Packets of a stream, or requests, that were sent.
    pub fn packets_sent(&self) -> u64 {
        self.sent
    }

    /// Packets of a stream that have arrived, those of the warm-up included.
    pub fn packets_arrived(&self) -> u64 {
        self.arrived
    }

    /// Packets of a stream, or requests, that were lost.
    pub fn packets_lost(&self) -> u64 {
        self.lost_data
    }

    /// Packets that were lost, answers and acknowledgements among them: no room in a ring, a
    /// queue or a buffer.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Packets of a window that have been sent and are not acknowledged, nor taken for lost.
    pub fn packets_in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Payload that has arrived since the warm-up, in bytes.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// From request to answer, at the end that asks.
    pub fn latency(&self) -> &Hist {
        &self.latency
    }

    /// Whether all is measured that was asked for; `None` if nothing was.
    pub fn done(&self) -> Option<bool> {
        let requests = matches!(self.config.pace, Pace::Requests(_)) && self.config.requests > 0;
        requests.then(|| self.latency.n() >= self.config.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_aggregates() {
        // 45 full frames of 1448 bytes carry 64 KB with 52 bytes of headers each.
        assert_eq!([1500, 1501, 65_536].map(frames_of), [1, 2, 46]);
    }
}
