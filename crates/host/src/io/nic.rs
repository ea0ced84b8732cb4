//! NICs: a wire of some rate in each direction, a receive ring, and interrupts in moderation.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};

use super::packet::Packet;

/// A NIC and its wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicConfig {
    /// Bits per second, each way; 1 kbit/s to 400 Gbit/s.
    pub bits_per_s: u64,
    /// From this end of the wire to the process at the other one.
    pub latency: Duration,
    /// Shortest time between two interrupts.
    pub moderation: Duration,
    /// Packets that fit into its receive ring.
    pub ring: u16,
    /// Its wire, and what waits for that, belong to who is on the other side of the
    /// [port](super::port); rate and latency are theirs, too. Receive ring and interrupts stay.
    pub external: Option<External>,
}

/// A NIC whose wire is on the other side of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct External {
    /// Longer packets are cut up into pieces of so many bytes by the driver domain, for
    /// [`split_piece`](super::costs::PathCosts::split_piece) each, before they come out of the
    /// port in one; `None`: the NIC does it, for nothing.
    pub pieces: Option<u16>,
}

/// One direction of a wire.
#[derive(Debug, Default)]
struct Way {
    free_at: Time,
    flying: VecDeque<Packet>,
}

/// A NIC as the host sees it, and the wire behind it.
#[derive(Debug)]
pub struct Nic {
    config: NicConfig,
    inward: Way,
    outward: Way,
    /// Packets that wait for the driver.
    rx: VecDeque<Packet>,
    /// The driver has asked for interrupts.
    listening: bool,
    /// An interrupt is on its way.
    raised: bool,
    last_interrupt: Option<Time>,
}

impl Nic {
    /// At rest.
    pub fn new(config: NicConfig) -> Self {
        Nic {
            config,
            inward: Way::default(),
            outward: Way::default(),
            rx: VecDeque::with_capacity(usize::from(config.ring)),
            listening: true,
            raised: false,
            last_interrupt: None,
        }
    }

    /// How long `packet` occupies the wire.
    pub fn span(&self, packet: &Packet) -> Duration {
        let bits = u64::from(packet.wire_bytes()) * 8;
        Duration::from_ps(bits * 1_000_000_000_000 / self.config.bits_per_s)
    }

    /// The other end sends `packet` at `now`; returns when it is here.
    pub fn send_in(&mut self, packet: Packet, now: Time) -> Time {
        let (span, latency) = (self.span(&packet), self.config.latency);
        self.inward.send(packet, now, span) + latency
    }

    /// The host sends `packet` at `now`; returns when it is at the other end.
    pub fn send_out(&mut self, packet: Packet, now: Time) -> Time {
        let (span, latency) = (self.span(&packet), self.config.latency);
        self.outward.send(packet, now, span) + latency
    }

    /// When the wire into the host is free.
    pub fn inward_free_at(&self) -> Time {
        self.inward.free_at
    }

    /// How long a packet that the host sends now waits for the wire.
    pub fn backlog(&self, now: Time) -> Duration {
        self.outward.free_at.max(now).since(now)
    }

    /// The next packet has arrived here: returns it if the ring is full and it is lost.
    pub fn arrived(&mut self) -> Option<Packet> {
        let packet = self.inward.flying.pop_front()?;
        if self.rx.len() < usize::from(self.config.ring) {
            self.rx.push_back(packet);
            return None;
        }
        Some(packet)
    }

    /// `packet` has arrived here from the port: returns whether the ring had room for it.
    pub fn hand_in(&mut self, packet: Packet) -> bool {
        let room = self.rx.len() < usize::from(self.config.ring);
        if room {
            self.rx.push_back(packet);
        }
        room
    }

    /// Whether its wire is on the other side of the port.
    pub fn is_external(&self) -> bool {
        self.config.external.is_some()
    }

    /// Into how many pieces the driver domain cuts up `packet`; 0: not at all.
    pub fn pieces(&self, packet: &Packet) -> u32 {
        let pieces = self.config.external.and_then(|external| external.pieces);
        let pieces = pieces.map(|piece| packet.bytes.div_ceil(u32::from(piece).max(1)));
        pieces.filter(|&n| n > 1).unwrap_or(0)
    }

    /// The next packet has arrived at the other end.
    pub fn departed(&mut self) -> Option<Packet> {
        self.outward.flying.pop_front()
    }

    /// When to interrupt the host, if it is to be and no interrupt is on its way.
    pub fn interrupt_at(&mut self, now: Time) -> Option<Time> {
        if !self.listening || self.raised || self.rx.is_empty() {
            return None;
        }
        self.raised = true;
        let earliest = self.last_interrupt.map(|last| last + self.config.moderation);
        Some(earliest.map_or(now, |at| at.max(now)))
    }

    /// The interrupt is delivered at `now`; no further one until the driver asks for them.
    pub fn interrupted(&mut self, now: Time) {
        self.raised = false;
        self.listening = false;
        self.last_interrupt = Some(now);
    }

    /// The driver takes a packet.
    pub fn take(&mut self) -> Option<Packet> {
        self.rx.pop_front()
    }

    /// These, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.rx.iter()
    }

    /// The first one.
    pub fn first(&self) -> Option<&Packet> {
        self.rx.front()
    }

    /// Packets that wait for the driver.
    pub fn waiting(&self) -> usize {
        self.rx.len()
    }

    /// The driver asks for interrupts again.
    pub fn listen(&mut self) {
        self.listening = true;
    }
}

impl Way {
    /// Returns when the last bit has left.
    fn send(&mut self, packet: Packet, now: Time, span: Duration) -> Time {
        self.flying.push_back(packet);
        self.free_at = self.free_at.max(now) + span;
        self.free_at
    }
}
