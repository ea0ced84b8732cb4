//! Packets, as far as a host's queues care.

use lowtail_engine::Time;

use super::flow::Way;
use crate::ids::Dom;

/// A stream, a pinger or a client: an index into the traffic of a host. Of a packet from the
/// port it is what the queue of an interface is chosen by, and no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowId(pub u16);

impl FlowId {
    /// As an index into tables by flow.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Part of a stream.
    Data,
    /// Says that parts of a stream have arrived.
    Ack,
    /// Wants an answer.
    Request,
    /// That answer.
    Reply,
    /// What others say it is for: it came in through the port.
    Foreign(Course),
}

/// Where a packet from the port goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// From a NIC to a guest.
    In,
    /// From a guest to a NIC.
    Out,
    /// From a guest to another one.
    Between,
}

impl Kind {
    /// Whether it goes from who sends to who receives, and not back.
    pub fn onward(self) -> bool {
        matches!(self, Kind::Data | Kind::Request | Kind::Foreign(_))
    }
}

/// A packet, or an aggregate of up to 64 KB that is cut up only at the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When its sender (for a reply: the sender of the request) handed it over.
    pub sent: Time,
    /// Length of the IP packet.
    pub bytes: u32,
    /// Whose.
    pub flow: FlowId,
    /// What for.
    pub kind: Kind,
    /// How many packets an acknowledgement is for.
    pub acks: u8,
    /// Of a packet from the port, what it is called there and where it goes.
    pub foreign: Foreign,
}

/// What a packet from the port is called there, and the ends of its way; the [`Course`] says
/// what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// Its name on the other side of the port.
    pub token: u32,
    /// The guest: who receives what comes in, who sends what goes out.
    pub dom: Dom,
    /// The NIC, or the guest that receives.
    pub peer: u16,
}

impl Foreign {
    /// Of a packet that has nothing to do with the port.
    pub const NONE: Foreign = Foreign { token: 0, dom: Dom(0), peer: 0 };
}

/// Bytes of an IPv4 and a UDP header.
pub const HEADER_BYTES: u32 = 28;
/// Longest IP packet on an Ethernet wire.
pub const MTU_BYTES: u32 = 1500;
/// What Ethernet adds to each: preamble 8, header 14, checksum 4, gap 12.
const FRAME_BYTES: u32 = 38;
/// IP and TCP headers with time stamps, which each further piece of an aggregate repeats.
const PIECE_BYTES: u32 = 52;
/// Bytes of a page, and so at most of a slot.
const PAGE_BYTES: u32 = 4096;

impl Packet {
    /// The guest and the way of a packet from the port; `None`: its flow says.
    pub fn course(&self) -> Option<(Dom, Way)> {
        let Kind::Foreign(course) = self.kind else { return None };
        let Foreign { dom, peer, .. } = self.foreign;
        let way = match course {
            Course::In => Way::In { nic: peer },
            Course::Out => Way::Out { nic: peer },
            Course::Between => Way::Between { to: Dom(peer) },
        };
        Some((dom, way))
    }

    /// Slots of a shared ring that it takes: one for each page, and one more for what says
    /// how an aggregate is to be cut up (`XEN_NETIF_EXTRA_TYPE_GSO`); 64 KB take 17.
    pub fn slots(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES).max(1) + u32::from(self.bytes > MTU_BYTES)
    }

    /// Frames that it makes on the wire.
    pub fn frames(&self) -> u32 {
        1 + self.bytes.saturating_sub(MTU_BYTES).div_ceil(MTU_BYTES - PIECE_BYTES)
    }

    /// Bytes of time that it takes on the wire.
    pub fn wire_bytes(&self) -> u32 {
        let frames = self.frames();
        // The shortest frame has 46 bytes of payload.
        self.bytes.max(46) + frames * FRAME_BYTES + (frames - 1) * PIECE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: u32) -> Packet {
        Packet {
            sent: Time::ZERO,
            bytes,
            flow: FlowId(0),
            kind: Kind::Data,
            acks: 0,
            foreign: Foreign::NONE,
        }
    }

    #[test]
    fn sizes_on_wire_and_ring() {
        // 1400 bytes of UDP: 1466 bytes of time on the wire, so 85.27 k/s at 1 Gbit/s.
        assert_eq!(of(1400 + HEADER_BYTES).wire_bytes(), 1466);
        // A ping of 56 bytes and the shortest frame.
        assert_eq!((of(84).wire_bytes(), of(28).wire_bytes()), (122, 84));
        assert_eq!((of(1500).slots(), of(1500).frames()), (1, 1));
        assert_eq!((of(65_536).slots(), of(65_536).frames()), (17, 46));
        assert!(size_of::<Packet>() <= 24);
    }
}
