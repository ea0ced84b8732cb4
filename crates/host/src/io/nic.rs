//! NICs, as the host sees them: a receive ring, and interrupts in moderation. The wire, and what
//! waits for it, is on the other side of the [port](super::port).

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};

use super::packet::Packet;

/// A NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicConfig {
    /// Shortest time between two interrupts.
    pub moderation: Duration,
    /// Packets that fit into its receive ring.
    pub ring: u16,
    /// Longer packets are cut up into pieces of so many bytes by the driver domain, for
    /// [`split_piece`](super::costs::PathCosts::split_piece) each, before they come out of the
    /// port in one; `None`: the NIC does it, for nothing.
    pub piece_bytes: Option<u16>,
}

/// A NIC at work.
#[derive(Debug)]
pub struct Nic {
    config: NicConfig,
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
            rx: VecDeque::with_capacity(usize::from(config.ring)),
            listening: true,
            raised: false,
            last_interrupt: None,
        }
    }

    /// `packet` has arrived here: returns whether the ring had room for it.
    #[inline(always)]
    pub fn arrived(&mut self, packet: Packet) -> bool {
        let room = self.rx.len() < usize::from(self.config.ring);
        if room {
            self.rx.push_back(packet);
        }
        room
    }

    /// Into how many pieces the driver domain cuts up `packet`; 0: not at all.
    pub fn pieces(&self, packet: &Packet) -> u32 {
        let pieces =
            self.config.piece_bytes.map(|piece| packet.bytes.div_ceil(u32::from(piece).max(1)));
        pieces.filter(|&n| n > 1).unwrap_or(0)
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
