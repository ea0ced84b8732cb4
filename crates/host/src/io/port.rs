//! The port: where packets of a network that knows nothing of hosts come in and go out, one at
//! a time, in one clock.
//!
//! What goes in is named by a token, and comes out under that name exactly once: received,
//! transmitted, worked for, or lost. Between the two it costs what its way costs.

use lowtail_engine::{Duration, Time};

pub use super::packet::Destination;
use super::packet::{Course, Packet};
use crate::ids::Dom;

/// Bytes of the longest aggregate: a longer one might never fit into a ring.
pub const BYTES_MAX: u32 = 65_536;

/// A packet as it is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSpec {
    bytes: u32,
    hash: u16,
    token: u32,
}

/// Why the port does not take something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// A packet of no length, or longer than any ring takes.
    #[error("{0} bytes: a packet has 1 to {BYTES_MAX}")]
    Length(u32),
    /// The host is further than that.
    #[error("handed in at {at:?}, but it is {now:?}")]
    Past {
        /// When it was handed in.
        at: Time,
        /// The host's clock.
        now: Time,
    },
    /// The host has something to do before.
    #[error("handed in at {at:?}, behind an event at {next:?}")]
    BehindEvent {
        /// When it was handed in.
        at: Time,
        /// When the host's next event is.
        next: Time,
    },
    /// There is no such NIC.
    #[error("NIC {0}: there is none")]
    NoNic(u16),
    /// The domain does not exist or has no virtual interface.
    #[error("{0:?} has no interface")]
    NoInterface(Dom),
    /// The guest has no such process.
    #[error("{dom:?} has no process {process}")]
    NoProcess {
        /// The guest.
        dom: Dom,
        /// The number of the process.
        process: u16,
    },
    /// From a guest to itself, which no bridge sees.
    #[error("{0:?} sends to itself")]
    ToItself(Dom),
}

/// Where a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostAt {
    /// No room in the receive ring of a NIC.
    Nic,
    /// No room in the back end's queue for a guest that has no buffers posted.
    BackEnd,
    /// No room in the guest for what waits for room in its ring.
    Guest,
}

/// What comes out of the port, at the host's own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEvent {
    /// The kernel of `dom` has received a packet.
    Received {
        /// The guest.
        dom: Dom,
        /// The packet.
        token: u32,
    },
    /// The kernel of `dom` has received all that waited in a queue of its interface: what it has
    /// put off until then, it does now (`napi_complete_done`). Follows the last
    /// [`Received`](Self::Received).
    CaughtUp {
        /// The guest.
        dom: Dom,
        /// The queue, among those of the interface.
        queue: u16,
    },
    /// The driver domain gives a packet that `dom` has sent to NIC number `nic`.
    Transmit {
        /// The NIC.
        nic: u16,
        /// The guest.
        dom: Dom,
        /// The packet.
        token: u32,
    },
    /// A process of `dom` has worked as it was to.
    Worked {
        /// The guest.
        dom: Dom,
        /// The work.
        token: u32,
    },
    /// A packet is lost.
    Lost {
        /// The guest that sent it; if it came from a NIC, the one that was to receive it.
        dom: Dom,
        /// The packet.
        token: u32,
        /// Where.
        at: LostAt,
    },
}

/// What a process of a guest does, in the order in which it is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Sends this packet, when there is room in the ring.
    Write(Packet),
    /// Works for so long.
    Work {
        /// For how long.
        span: Duration,
        /// What it is called on the other side.
        token: u32,
    },
}

/// What a guest is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRequest {
    /// Its network stack sends this packet.
    Send(Packet),
    /// A process of it has something to do.
    Process {
        /// The number of the process.
        process: u16,
        /// What.
        job: Job,
    },
}

impl PacketSpec {
    /// A packet with the length of the IP packet, or of an aggregate; a hash that chooses the queue
    /// where an interface has several (packets with the same one stay in order); and what
    /// it is called on the other side.
    ///
    /// # Errors
    /// If `bytes` is not 1 to [`BYTES_MAX`].
    pub fn new(bytes: u32, hash: u16, token: u32) -> Result<Self, PortError> {
        if !(1..=BYTES_MAX).contains(&bytes) {
            return Err(PortError::Length(bytes));
        }
        Ok(PacketSpec { bytes, hash, token })
    }

    /// What it is called on the other side.
    pub fn token(&self) -> u32 {
        self.token
    }

    /// On its way through the host.
    pub(crate) fn packet(self, course: Course) -> Packet {
        let PacketSpec { bytes, hash, token } = self;
        Packet { bytes, token, hash, course }
    }
}
