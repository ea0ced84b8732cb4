//! FQ-CoDel: a queue for each flow, each under CoDel, served by deficit round robin; flows that
//! are new go first (RFC 8290).

use std::collections::VecDeque;

use super::chain::{Chain, Slab, flow_hash};
use super::codel::{CodelConfig, CodelState};
use super::{Cause, Queue, QueueContext};
use crate::packet::PacketId;

/// What FQ-CoDel goes by. The default is Linux's (`fq_codel_init`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Queues that flows are hashed to. 1024 ("flows" of RFC 8290, `flows_cnt`): with 100
    /// flows at a time, one in ten shares its queue. Fit for a host.
    pub flows: usize,
    /// Bytes a flow may send before the next one's turn. 1514 (`psched_mtu`: an Ethernet frame
    /// without its checksum; "quantum" of RFC 8290). A segment of 64 KB takes 43 turns, but it
    /// takes them all at once and pays later: to a flow beside it, the quantum is 64 KB. Put a
    /// [`Split`](super::split::Split) before it.
    pub quantum: u32,
    /// Packets in all queues. 10240 ("packet limit" of RFC 8290). With segments of 64 KB,
    /// `memory_limit` is met long before.
    pub limit_packets: usize,
    /// Bytes in all queues. 32 MB (`memory_limit`): 27 ms at 10 Gbit/s. Linux counts the memory
    /// that a packet takes, here its bytes count.
    pub memory_limit: u64,
    /// Packets that are dropped at a time when a limit is met, from the longest queue, but no
    /// more than half of it. 64 (`drop_batch_size`; RFC 8290, enqueueing).
    pub drop_batch: u32,
    /// Of each queue. Linux marks by default here. What is left behind a packet is counted over
    /// all queues, as Linux does.
    pub codel: CodelConfig,
    /// Of the hash (RFC 8290: salted by a random number).
    pub seed: u64,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        FqCodelConfig {
            flows: 1024,
            quantum: 1514,
            limit_packets: 10_240,
            memory_limit: 32 << 20,
            drop_batch: 64,
            codel: CodelConfig { ecn: true, ..CodelConfig::default() },
            seed: 0,
        }
    }
}

#[derive(Debug, Clone)]
struct Flow {
    waiting: Chain,
    codel: CodelState,
    /// Bytes it may send in this turn; below zero it has sent too much.
    deficit: i64,
    /// In `new` or `old`, even if nothing of it waits any more.
    listed: bool,
}

/// A queue for each flow, each under CoDel.
#[derive(Debug)]
pub struct FqCodel {
    config: FqCodelConfig,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    slab: Slab,
    packets: usize,
    bytes: u64,
}

impl FqCodel {
    /// Empty. Zero flows or a quantum of zero become one.
    pub fn new(config: FqCodelConfig) -> Self {
        let config = FqCodelConfig {
            flows: config.flows.max(1),
            quantum: config.quantum.max(1),
            drop_batch: config.drop_batch.max(1),
            ..config
        };
        let codel = CodelState::new();
        let flow = Flow { waiting: Chain::EMPTY, codel, deficit: 0, listed: false };
        FqCodel {
            flows: vec![flow; config.flows],
            new: VecDeque::with_capacity(config.flows),
            old: VecDeque::with_capacity(config.flows),
            slab: Slab::new(),
            packets: 0,
            bytes: 0,
            config,
        }
    }

    /// RFC 8290, enqueueing: from the head of the queue with the most bytes.
    fn drop_from_longest(&mut self, cx: &mut QueueContext<'_>) {
        let mut longest = (0, None);
        // Only those in a list have packets.
        for &f in self.new.iter().chain(&self.old) {
            let bytes = self.flows[f as usize].waiting.bytes();
            if bytes > longest.0 {
                longest = (bytes, Some(f));
            }
        }
        let (most, Some(f)) = longest else { return };
        let flow = &mut self.flows[f as usize];
        let (mut dropped, mut bytes) = (0, 0);
        while dropped < self.config.drop_batch && bytes < most.div_ceil(2) {
            let Some((id, length)) = flow.waiting.pop(&mut self.slab) else { break };
            cx.drop(id, Cause::Full);
            dropped += 1;
            bytes += u64::from(length);
        }
        flow.codel.add_drops(dropped);
        self.packets -= dropped as usize;
        self.bytes -= bytes;
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let packet = &cx.pool[id];
        let f = flow_hash(packet, self.config.seed, self.config.flows);
        let flow = &mut self.flows[f];
        flow.waiting.push(&mut self.slab, id, packet.bytes());
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        if !flow.listed {
            flow.listed = true;
            flow.deficit = i64::from(self.config.quantum);
            self.new.push_back(f as u32);
        }
        while self.packets > self.config.limit_packets || self.bytes > self.config.memory_limit {
            self.drop_from_longest(cx);
        }
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let f = *list.front()?;
            let Flow { waiting, codel, deficit, listed } = &mut self.flows[f as usize];
            if *deficit <= 0 {
                *deficit += i64::from(self.config.quantum);
                list.pop_front();
                self.old.push_back(f);
                continue;
            }
            let (slab, packets, bytes) = (&mut self.slab, &mut self.packets, &mut self.bytes);
            let next = codel.dequeue(&self.config.codel, cx, |_| {
                let (id, length) = waiting.pop(slab)?;
                *packets -= 1;
                *bytes -= u64::from(length);
                Some((id, *bytes))
            });
            if let Some(id) = next {
                *deficit -= i64::from(cx.pool[id].bytes());
                return Some(id);
            }
            list.pop_front();
            // It does not become new again before all the others had their turn: otherwise one
            // that sends a packet each time its queue is empty would starve them.
            if from_new && !self.old.is_empty() {
                self.old.push_back(f);
            } else {
                *listed = false;
            }
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
