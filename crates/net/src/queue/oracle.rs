//! Knows how much of each message is left and sends the one with the least first: what no host can
//! do, as a bound for what hosts can.
//!
//! As pFabric (SIGCOMM 2013) has it: the flow is next whose latest packet says that least is left,
//! and of that flow the packet that came first, so that none is overtaken by its successor. If
//! there is no room, the last packet of the flow with the most left is dropped. Packets that do not
//! tell (see [`TrafficConfig::reveal`](crate::traffic::TrafficConfig::reveal)) and acknowledgements go first.

use std::collections::VecDeque;

use super::{Cause, Queue, QueueContext};
use crate::packet::{FlowId, Kind, Packet, PacketId};

/// A flow that waits.
#[derive(Debug)]
struct Lane {
    flow: FlowId,
    left: u64,
    waiting: VecDeque<PacketId>,
}

/// Shortest remaining message first.
#[derive(Debug)]
pub struct Oracle {
    limit_bytes: u64,
    bytes: u64,
    packets: usize,
    lanes: Vec<Lane>,
    /// Queues of lanes that are gone, to be used again.
    spare: Vec<VecDeque<PacketId>>,
}

/// Bytes that are left of a packet's message.
fn left(packet: &Packet) -> u64 {
    if packet.kind == Kind::Data { packet.ack } else { 0 }
}

impl Oracle {
    /// Empty, with room for so many bytes.
    pub fn new(limit_bytes: u64) -> Self {
        Oracle { limit_bytes, bytes: 0, packets: 0, lanes: Vec::new(), spare: Vec::new() }
    }

    fn remove_lane(&mut self, at: usize) {
        let lane = self.lanes.remove(at);
        self.spare.push(lane.waiting);
    }

    /// Drops the last packet of the flow with the most left.
    fn make_room(&mut self, cx: &mut QueueContext<'_>) {
        let worst = self.lanes.iter().enumerate().max_by_key(|(at, lane)| (lane.left, *at));
        let Some(at) = worst.map(|(at, _)| at) else { return };
        let lane = &mut self.lanes[at];
        if let Some(id) = lane.waiting.pop_back() {
            self.bytes -= u64::from(cx.pool[id].bytes());
            self.packets -= 1;
            cx.drop(id, Cause::Full);
        }
        if self.lanes[at].waiting.is_empty() {
            self.remove_lane(at);
        }
    }
}

impl Queue for Oracle {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let packet = cx.pool[id];
        self.bytes += u64::from(packet.bytes());
        self.packets += 1;
        match self.lanes.iter_mut().find(|lane| lane.flow == packet.flow) {
            Some(lane) => {
                lane.left = left(&packet);
                lane.waiting.push_back(id);
            }
            None => {
                let mut waiting = self.spare.pop().unwrap_or_default();
                waiting.push_back(id);
                self.lanes.push(Lane { flow: packet.flow, left: left(&packet), waiting });
            }
        }
        while self.bytes > self.limit_bytes {
            self.make_room(cx);
        }
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        let best = self.lanes.iter().enumerate().min_by_key(|(at, lane)| (lane.left, *at));
        let at = best?.0;
        let id = self.lanes[at].waiting.pop_front()?;
        if self.lanes[at].waiting.is_empty() {
            self.remove_lane(at);
        }
        self.bytes -= u64::from(cx.pool[id].bytes());
        self.packets -= 1;
        Some(id)
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
