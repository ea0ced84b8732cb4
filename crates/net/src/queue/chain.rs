//! Many lists of packets in one slab: what disciplines with a queue for each flow are made of.
//! Once the slab has grown to the most packets that ever waited, nothing is allocated.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::packet::{Packet, PacketId};

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    id: PacketId,
    bytes: u32,
    next: u32,
}

/// Where the nodes of all chains are.
#[derive(Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    free: u32,
}

/// A list of packets, first in, first out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
}

impl Slab {
    pub(super) fn new() -> Self {
        Slab { nodes: Vec::new(), free: NONE }
    }
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain { head: NONE, tail: NONE, packets: 0, bytes: 0 };

    pub(super) fn push(&mut self, slab: &mut Slab, id: PacketId, bytes: u32) {
        let node = Node { id, bytes, next: NONE };
        let at = slab.free;
        let at = if at == NONE {
            slab.nodes.push(node);
            (slab.nodes.len() - 1) as u32
        } else {
            slab.free = slab.nodes[at as usize].next;
            slab.nodes[at as usize] = node;
            at
        };
        match self.tail {
            NONE => self.head = at,
            tail => slab.nodes[tail as usize].next = at,
        }
        self.tail = at;
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// The first packet and its bytes.
    pub(super) fn pop(&mut self, slab: &mut Slab) -> Option<(PacketId, u32)> {
        let at = self.head;
        if at == NONE {
            return None;
        }
        let Node { id, bytes, next } = slab.nodes[at as usize];
        slab.nodes[at as usize].next = slab.free;
        slab.free = at;
        self.head = next;
        if next == NONE {
            self.tail = NONE;
        }
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        Some((id, bytes))
    }

    /// Bytes of the first packet.
    pub(super) fn first_bytes(&self, slab: &Slab) -> Option<u32> {
        (self.head != NONE).then(|| slab.nodes[self.head as usize].bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Spreads a number over 64 bits: the finaliser of `SplitMix64` (Steele, Lea and Flood 2014, with
/// Stafford's constants, variant 13), as `java.util.SplittableRandom` and seeding of xoshiro have
/// it.
pub(super) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The pair of ends as a key.
pub(super) fn pair_key(packet: &Packet) -> u64 {
    u64::from(packet.src.0) << 32 | u64::from(packet.dst.0)
}

/// What stands for the ports of a packet, and its protocol: its flow, and which of the connections
/// that have followed each other there, each of which has ports of its own.
pub(super) fn ports(packet: &Packet) -> u64 {
    let of = u64::from(packet.generation) << 1 | u64::from(packet.kind.is_of_datagram_flow());
    of << 32 | u64::from(packet.flow.0)
}

/// The flow of a packet, in one direction, as a key: two directions of a flow have different
/// sources. No two are the same up to 2^31 ends.
pub(super) fn flow_key(packet: &Packet) -> u64 {
    let of_datagrams = u64::from(packet.kind.is_of_datagram_flow());
    u64::from(packet.src.0) << 33 | u64::from(packet.flow.0) << 1 | of_datagrams
}

/// One of `n` queues for the flow of `packet`: by (source, destination, flow), since a
/// [`FlowId`](crate::packet::FlowId) stands for the ports.
pub(super) fn flow_hash(packet: &Packet, seed: u64, n: usize) -> usize {
    let hash = mix(mix(mix(seed) ^ pair_key(packet)) ^ u64::from(packet.flow.0));
    // The high half of a product instead of a remainder, as Linux's `reciprocal_scale`.
    ((u128::from(hash) * n as u128) >> 64) as usize
}

/// Hashes one `u64`, the same in each run.
#[derive(Debug, Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = mix(self.0 ^ n);
    }
}

/// Which slot a key has. Never walked, so that its order does not matter.
pub(super) type Slots = HashMap<u64, u32, BuildHasherDefault<Mixer>>;
