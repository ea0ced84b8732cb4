//! The port: where packets of a network that knows nothing of hosts come in and go out, one at
//! a time, in one clock.
//!
//! What goes in is named by a token, and comes out under that name exactly once: received,
//! transmitted, worked for, or lost. Between the two it is a packet like any other, with all
//! costs of its way.

use lowtail_engine::{Duration, Time};

use super::packet::{Course, FlowId, Foreign, Kind, Packet};
use crate::ids::Dom;

/// Bytes of the longest aggregate: a longer one might never fit into a ring.
pub const BYTES_MAX: u32 = 65_536;

/// A packet as it is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// Length of the IP packet, or of an aggregate: 1 to [`BYTES_MAX`].
    pub bytes: u32,
    /// Chooses the queue where an interface has several: packets with the same hash stay in
    /// order.
    pub hash: u16,
    /// What it is called on the other side.
    pub token: u32,
}

/// Where a guest sends a packet to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Out, through this NIC.
    Nic(u16),
    /// To this guest of the same host, over the bridge.
    Dom(Dom),
}

/// Where a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostAt {
    /// No room in a NIC: its receive ring, or its queue.
    Nic,
    /// No room in the back end's queue for a guest that has no buffers posted.
    BackEnd,
    /// No room in the guest: a socket's buffer, or what waits for room in its ring.
    Guest,
}

/// What comes out of the port, at the machine's own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handed {
    /// The kernel of `dom` has received a packet.
    Received {
        /// Who.
        dom: Dom,
        /// What.
        token: u32,
    },
    /// The driver domain gives a packet that `dom` has sent to NIC number `nic`.
    Transmit {
        /// Where.
        nic: u16,
        /// From whom.
        dom: Dom,
        /// What.
        token: u32,
    },
    /// The process of `dom` has worked as it was to.
    Worked {
        /// Who.
        dom: Dom,
        /// For what.
        token: u32,
    },
    /// A packet is lost.
    Lost {
        /// Who sent it; if it came from a NIC, who was to receive it.
        dom: Dom,
        /// What.
        token: u32,
        /// Where.
        at: LostAt,
    },
}

/// What a guest is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// Its network stack sends this packet.
    Send(Packet),
    /// Its process works for so long.
    Work {
        /// For how long.
        span: Duration,
        /// What it is called on the other side.
        token: u32,
    },
}

impl Parcel {
    /// As a packet, at `sent`, between `dom` and `peer`.
    pub(crate) fn packet(self, sent: Time, dom: Dom, course: Course, peer: u16) -> Packet {
        let Parcel { bytes, hash, token } = self;
        assert!((1..=BYTES_MAX).contains(&bytes), "{bytes} bytes: a packet has 1 to {BYTES_MAX}");
        let foreign = Foreign { token, dom, peer };
        let (flow, kind) = (FlowId(hash), Kind::Foreign(course));
        Packet { sent, bytes, flow, kind, acks: 0, foreign }
    }
}
