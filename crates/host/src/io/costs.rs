//! What the way of a packet costs.

use lowtail_engine::Duration;

use super::packet::Packet;

/// Processor time along the way of a packet, on one kind of machine. Numbers with their
/// sources stand in `costs/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCosts {
    /// From a pending event to the handler in the guest's kernel, once for each.
    pub upcall: Duration,
    /// The handler of a device's interrupt.
    pub irq: Duration,
    /// Notifying another domain: the hypercall.
    pub notify: Duration,
    /// Switching between two tasks of a kernel.
    pub task_switch: Duration,
    /// A packet from the NIC through driver and bridge to the back end.
    pub nic_packet: Duration,
    /// A packet in the back end, but for its grant operation.
    pub back_packet: Duration,
    /// Work for each 1024 bytes there, beside grant operations.
    pub back_kb: Duration,
    /// The grant operation (copy or map) of each slot of a packet, with the lock held if there
    /// is one.
    pub grant_slot: Duration,
    /// A packet in the guest: front end, stack, socket.
    pub front_packet: Duration,
    /// The same for each 1024 bytes.
    pub front_kb: Duration,
    /// Cutting an aggregate up in the driver domain, for each piece, where the NIC does not
    /// do it ([`NicConfig::piece_bytes`](super::nic::NicConfig::piece_bytes)).
    pub split_piece: Duration,
    /// What is left of a guest's kick when the worker of vhost is awake: out of the eventfd and back into the guest.
    pub vhost_kick: Duration,
    /// A turn of a worker of vhost, whatever it finds, after its packets: what is used is made known, notifications are on again.
    pub vhost_turn: Duration,
    /// A packet that a guest sends in the worker: copied out of its ring.
    pub vhost_copy: Duration,
    /// The same packet through the host's network, to a NIC or another tap.
    pub vhost_send: Duration,
    /// A packet for a guest in the worker: copied from the ring of the tap.
    pub vhost_receive: Duration,
    /// The copy of each 1024 bytes, in both directions.
    pub vhost_kb: Duration,
}

/// So much for each 1024 bytes of `packet`.
fn by_size(per_kb: Duration, packet: &Packet) -> Duration {
    per_kb.mul_div(u64::from(packet.bytes), 1024)
}

impl PathCosts {
    /// The grant operations of `packet`.
    pub fn grant(&self, packet: &Packet) -> Duration {
        self.grant_slot * u64::from(packet.slots())
    }

    /// `packet` in the back end, but for these.
    pub fn back(&self, packet: &Packet) -> Duration {
        self.back_packet + by_size(self.back_kb, packet)
    }

    /// `packet` that a guest sends, copied by a worker of vhost.
    pub fn vhost_copy(&self, packet: &Packet) -> Duration {
        self.vhost_copy + by_size(self.vhost_kb, packet)
    }

    /// `packet` for a guest, copied by a worker of vhost.
    pub fn vhost_receive(&self, packet: &Packet) -> Duration {
        self.vhost_receive + by_size(self.vhost_kb, packet)
    }

    /// `packet` in the guest.
    pub fn front(&self, packet: &Packet) -> Duration {
        self.front_packet + by_size(self.front_kb, packet)
    }
}
