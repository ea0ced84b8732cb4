//! Shared rings between a front end and its back end, one page each: 256 slots.
//!
//! Each side notifies the other only if that one has said that it wants to hear of the next
//! entry (`req_event`, `rsp_event`): it says so before it goes to sleep, and not while it is
//! at work anyway.

use std::collections::VecDeque;

use super::packet::Packet;

/// Slots of a ring of one page (`XEN_NETIF_TX_RING_SIZE`, `XEN_NETIF_RX_RING_SIZE`).
pub const RING_SLOTS: u32 = 256;

/// Has `queue` begin at its first place again if it is empty: one that goes round in all its room
/// would have none of it in the cache.
pub(crate) fn restart_if_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        queue.clear();
    }
}

/// From the guest to the host.
#[derive(Debug)]
pub struct TxRing {
    free: u32,
    requests: VecDeque<Packet>,
    /// Of the packets in there.
    bytes: u64,
    /// Slots of packets that the host is done with and the guest has not taken back.
    answered: u32,
    back_listens: bool,
    front_listens: bool,
}

impl Default for TxRing {
    fn default() -> Self {
        TxRing {
            free: RING_SLOTS,
            requests: VecDeque::with_capacity(RING_SLOTS as usize),
            bytes: 0,
            answered: 0,
            back_listens: true,
            front_listens: false,
        }
    }
}

impl TxRing {
    /// The guest sends `packet`, if there is room. `Some(true)`: the host is to be notified.
    pub fn push(&mut self, packet: Packet) -> Option<bool> {
        let slots = packet.slots();
        if self.free < slots {
            // The guest waits for room.
            self.front_listens = true;
            return None;
        }
        self.free -= slots;
        self.requests.push_back(packet);
        self.bytes += u64::from(packet.bytes);
        Some(std::mem::take(&mut self.back_listens))
    }

    /// The host takes the next packet.
    pub fn take(&mut self) -> Option<Packet> {
        let packet = self.requests.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        restart_if_empty(&mut self.requests);
        Some(packet)
    }

    /// Packets that wait for the host.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Their bytes.
    pub fn waiting_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the next packet that waits is there to be looked at.
    pub fn first(&self) -> Option<&Packet> {
        self.requests.front()
    }

    /// How many packets like `packet` the guest can send; if none, it waits for room.
    pub fn room(&mut self, packet: &Packet) -> u32 {
        let room = self.free / packet.slots();
        self.front_listens |= room == 0;
        room
    }

    /// The host is done with `packet`. Returns whether the guest is to be notified.
    pub fn answer(&mut self, packet: &Packet) -> bool {
        self.answered += packet.slots();
        std::mem::take(&mut self.front_listens)
    }

    /// The guest takes back slots of packets that are done.
    pub fn reap(&mut self) -> u32 {
        self.free += self.answered;
        std::mem::take(&mut self.answered)
    }

    /// The host goes to sleep and wants to be notified. Returns whether it can: if there is
    /// something already, it is not to.
    pub fn back_sleeps(&mut self) -> bool {
        self.back_listens = self.requests.is_empty();
        self.back_listens
    }
}

/// From the host to the guest.
#[derive(Debug)]
pub struct RxRing {
    /// Buffers that the guest has posted.
    posted: u32,
    filled: VecDeque<Packet>,
    front_listens: bool,
    back_listens: bool,
}

impl Default for RxRing {
    fn default() -> Self {
        RxRing {
            posted: RING_SLOTS,
            filled: VecDeque::with_capacity(RING_SLOTS as usize),
            front_listens: true,
            back_listens: false,
        }
    }
}

impl RxRing {
    /// The host takes buffers for `packet`, if there are enough.
    pub fn reserve(&mut self, packet: &Packet) -> bool {
        let slots = packet.slots();
        let enough = self.posted >= slots;
        if enough {
            self.posted -= slots;
        } else {
            self.back_listens = true;
        }
        enough
    }

    /// The host hands over `packet`, whose buffers it has taken. Returns whether the guest
    /// is to be notified.
    pub fn fill(&mut self, packet: Packet) -> bool {
        self.filled.push_back(packet);
        std::mem::take(&mut self.front_listens)
    }

    /// The guest takes a packet and posts its buffers anew.
    pub fn take(&mut self) -> Option<Packet> {
        let packet = self.filled.pop_front()?;
        self.posted += packet.slots();
        restart_if_empty(&mut self.filled);
        Some(packet)
    }

    /// Packets that wait for the guest.
    pub fn waiting(&self) -> usize {
        self.filled.len()
    }

    /// These, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.filled.iter()
    }

    /// Whether the host waits for buffers, and is to be notified that there are some.
    pub fn wake_back(&mut self) -> bool {
        std::mem::take(&mut self.back_listens)
    }

    /// The guest goes to sleep and wants to be notified. Returns whether it can.
    pub fn front_sleeps(&mut self) -> bool {
        self.front_listens = self.filled.is_empty();
        self.front_listens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Dom;
    use crate::io::packet::Course;

    fn packet(bytes: u32) -> Packet {
        let course = Course::Out { from: Dom(1), nic: 0 };
        Packet { bytes, token: 0, hash: 0, course }
    }

    #[test]
    fn fifteen_aggregates_fill_a_ring() {
        let mut ring = TxRing::default();
        let pushed = std::iter::from_fn(|| ring.push(packet(65_536))).count();
        assert_eq!(pushed, 15);
        let first = ring.take().expect("there are 15");
        // The guest waits for room since the push that failed.
        assert!(ring.answer(&first));
        assert_eq!((ring.reap(), ring.waiting()), (17, 14));
        assert!(ring.push(packet(65_536)).is_some());
    }

    #[test]
    fn only_sleepers_are_notified() {
        let mut ring = TxRing::default();
        assert_eq!(ring.push(packet(100)), Some(true));
        assert_eq!(ring.push(packet(100)), Some(false));
        assert!(!ring.back_sleeps());
        ring.take();
        ring.take();
        assert!(ring.back_sleeps());
        assert_eq!(ring.push(packet(100)), Some(true));

        let mut ring = RxRing::default();
        assert!(ring.reserve(&packet(100)));
        assert!(ring.fill(packet(100)));
        assert!(ring.reserve(&packet(100)));
        assert!(!ring.fill(packet(100)));
        assert!(!ring.front_sleeps());
    }
}
