//! Packets for queues.

use lowtail_engine::Time;
use lowtail_net::packet::{Ecn, End, FlowId, Kind, Packet, frames_of};

/// A segment of TCP with the least frames.
pub(crate) fn data((src, dst, flow): (u32, u32, u32), seq: u64, payload: u32) -> Packet {
    Packet {
        seq,
        ack: 0,
        sent: Time::ZERO,
        queued: Time::ZERO,
        flow: FlowId(flow),
        src: End(src),
        dst: End(dst),
        route: 0,
        payload,
        sack: u32::MAX,
        frames: frames_of(payload),
        kind: Kind::Data,
        ecn: Ecn::Not,
        class: 0,
        flags: 0,
        generation: 0,
    }
}
