//! What a process of an end works for.

use lowtail_engine::Time;

use crate::packet::Kind;

/// What a process works for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Job {
    /// A request of a conversation, which was begun at `start`.
    Reply { channel: u32, start: Time },
    /// A packet of a datagram flow.
    Datagram(DatagramJob),
}

/// A packet of a datagram flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct DatagramJob {
    /// The number of the flow.
    pub(super) flow: u32,
    pub(super) kind: Kind,
    pub(super) payload: u32,
    pub(super) sent: Time,
}
