//! Events on the way of packets.

use super::packet::FlowId;

/// What can happen on the way of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoEvent {
    /// A packet arrives at a NIC.
    Arrive(u16),
    /// A NIC interrupts.
    Interrupt(u16),
    /// A packet arrives at the other end of a NIC's wire.
    Depart(u16),
    /// It is time for the outside to send the next packet of a flow.
    Send(FlowId),
    /// The time has come to send a lost packet again.
    Resend(FlowId),
}
