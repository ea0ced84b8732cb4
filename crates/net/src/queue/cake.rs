//! CAKE, as far as it matters in a host: a shaper without bursts, flows apart and hosts apart,
//! and COBALT (CoDel with BLUE) on each queue. After the facts of Linux's `sch_cake` with one tin
//! (`besteffort`), `triple-isolate` and `split-gso`; Høiland-Jørgensen, Täht and Morton, "Piece of
//! CAKE", 2018.
//!
//! Left out: tins (diffserv), NAT look-ups, the filter of acknowledgements, `autorate-ingress` and
//! `ingress`, ATM and PTM framing, `wash`, the fail-safe of the shaper's clock, and statistics.
//! Queues are found by a plain hash, not by one of 8 ways (`CAKE_SET_WAYS`): with 100 flows at
//! a time, one in ten shares its queue here. Hosts are told apart exactly, not by a hash.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Rng, Time};

use super::chain::{Chain, Slab, flow_hash};
use super::codel::{INTERVAL, TARGET, control_law, mark};
use super::split::cut;
use super::{Cause, Queue, QueueContext};
use crate::packet::{Packet, PacketId};
use crate::rate::Rate;

/// Longest frame: 1514 bytes (`psched_mtu` on Ethernet).
const MTU: u64 = 1514;
/// `sch->limit` of `cake_init`: 10240 packets of an MTU bound the memory.
const LIMIT_PACKETS: u64 = 10_240;
/// `cake_reconfigure`: at least 4 MB of memory.
const MEMORY_MIN: u64 = 4 << 20;
/// `p_inc` of `cake_set_rate`: BLUE drops 1/256 more when its queue was full; in 2^-32.
const P_INC: u32 = 1 << 24;
/// `p_dec` of `cake_set_rate`: and 1/4096 less when it was empty.
const P_DEC: u32 = 1 << 20;
/// Deficits are counted in these parts of a byte, since a share may be a byte and a half. (Linux
/// rounds at random instead.)
const FRACTION: u64 = 1 << 16;

/// What CAKE goes by. The default is Linux's, unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CakeConfig {
    /// Shaped to this; `None`: as fast as somebody asks (`unlimited`).
    pub rate: Option<Rate>,
    /// Added to each frame for the shaper and shares (`overhead`; Linux counts Ethernet's header of
    /// 14 bytes by default, here lengths are those of IP packets). 0.
    pub overhead: u32,
    /// 5 ms (`q->target`), or 1.5 frames' time where that is longer. Unfit for a data centre as
    /// it is, see [`TARGET`].
    pub target: Duration,
    /// 100 ms (`q->interval`, keyword `internet`). `datacentre` is 100 us, with a target of 5 us
    /// (a twentieth): fit for a fabric, too short for hosts that wait for their scheduler.
    pub interval: Duration,
    /// Queues that flows are hashed to. 1024 (`CAKE_QUEUES`).
    pub queues: usize,
    /// Bytes in all of them (`memlimit`). `None`: four intervals at the rate, at least 4 MB, at
    /// most 15.5 MB (`cake_reconfigure`). Linux counts memory, here it is bytes.
    pub memory_limit: Option<u64>,
    /// Whether segments are cut into frames before they wait (`split-gso`, the default).
    pub split_gso: bool,
    /// Of the hash, and of BLUE.
    pub seed: u64,
}

impl Default for CakeConfig {
    fn default() -> Self {
        CakeConfig {
            rate: None,
            overhead: 0,
            target: TARGET,
            interval: INTERVAL,
            queues: 1024,
            memory_limit: None,
            split_gso: true,
            seed: 0,
        }
    }
}

/// Where a flow is: `CAKE_SET_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    None,
    Sparse,
    /// It had its turn as a sparse one and is empty, but takes its turn among bulk flows.
    SparseWait,
    Bulk,
    /// Empty; COBALT still calms down.
    Decaying,
}

/// CoDel without a spared backlog, and BLUE for those who do not listen.
#[derive(Debug, Clone, Copy)]
struct Cobalt {
    count: u32,
    /// When to drop next; while all is calm, until when its state counts.
    drop_next: Time,
    blue_since: Time,
    /// In 2^-32.
    p_drop: u32,
    dropping: bool,
}

#[derive(Debug, Clone, Copy)]
struct CobaltConfig {
    target: Duration,
    interval: Duration,
    mtu_time: Duration,
}

impl Cobalt {
    const NEW: Cobalt = Cobalt {
        count: 0,
        drop_next: Time::ZERO,
        blue_since: Time::ZERO,
        p_drop: 0,
        dropping: false,
    };

    /// A packet was dropped for want of room (`cobalt_queue_full`).
    fn full(&mut self, config: &CobaltConfig, now: Time) {
        if now.saturating_since(self.blue_since) > config.target {
            self.p_drop = self.p_drop.saturating_add(P_INC);
            self.blue_since = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue was asked and is empty (`cobalt_queue_empty`).
    fn empty(&mut self, config: &CobaltConfig, now: Time) {
        if self.p_drop > 0 && now.saturating_since(self.blue_since) > config.target {
            self.p_drop = self.p_drop.saturating_sub(P_DEC);
            self.blue_since = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next += control_law(config.interval, self.count);
        }
    }

    /// Whether nothing of it would be missed.
    fn at_rest(&self, now: Time) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Whether to drop `packet`, which leaves now, or marks it (`cobalt_should_drop`).
    fn should_drop(
        &mut self,
        config: &CobaltConfig,
        packet: &mut Packet,
        now: Time,
        random: &mut Rng,
    ) -> bool {
        let waited = now.saturating_since(packet.queued);
        let late = waited > config.target && waited > config.mtu_time * 4;
        let due = self.count > 0 && now >= self.drop_next;
        if late {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = now + control_law(config.interval, self.count);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let mut drop = false;
        if due && self.dropping {
            drop = !mark(packet);
            self.count = self.count.saturating_add(1);
            self.drop_next += control_law(config.interval, self.count);
        } else if due {
            // In time: what was learnt is forgotten as slowly as it was learnt.
            while self.count > 0 && now >= self.drop_next {
                self.count -= 1;
                self.drop_next += control_law(config.interval, self.count);
            }
        }
        // BLUE does not mark: who is dropped here has not listened.
        if self.p_drop > 0 {
            drop |= random.below(1 << 32) < u64::from(self.p_drop);
        }
        if self.count == 0 {
            self.drop_next = now + config.interval;
        } else if now > self.drop_next && !drop {
            self.drop_next = now;
        }
        drop
    }
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    waiting: Chain,
    cobalt: Cobalt,
    /// In [`FRACTION`]s of a byte.
    deficit: i64,
    set: Set,
    src: u32,
    dst: u32,
}

/// CAKE with one tin.
#[derive(Debug)]
pub struct Cake {
    config: CakeConfig,
    cobalt: CobaltConfig,
    quantum: u64,
    memory_limit: u64,
    flows: Vec<Flow>,
    sparse: VecDeque<u32>,
    bulk: VecDeque<u32>,
    decaying: VecDeque<u32>,
    /// Bulk flows from, and to, each end.
    from: Vec<u32>,
    to: Vec<u32>,
    next_packet: Time,
    random: Rng,
    slab: Slab,
    packets: usize,
    bytes: u64,
}

impl Cake {
    /// Empty. No queues become one.
    pub fn new(config: CakeConfig) -> Self {
        let config = CakeConfig { queues: config.queues.max(1), ..config };
        let byte_rate = config.rate.map(|rate| rate.bits_per_s() / 8);
        let mtu_time = config.rate.map_or(Duration::ZERO, |rate| rate.span(MTU));
        // `cake_set_rate`: a target of 1.5 frames, and an interval as much longer.
        let target = config.target.max(mtu_time * 3 / 2);
        let interval = (config.interval + target.saturating_sub(config.target)).max(target * 2);
        // `cake_reconfigure`.
        let four_intervals = config
            .rate
            .map_or(u64::MAX, |rate| rate.bytes(config.interval).saturating_mul(4).max(MEMORY_MIN));
        let unset = four_intervals.min(LIMIT_PACKETS * MTU);
        let flow = Flow {
            waiting: Chain::EMPTY,
            cobalt: Cobalt::NEW,
            deficit: 0,
            set: Set::None,
            src: 0,
            dst: 0,
        };
        let list = || VecDeque::with_capacity(config.queues);
        Cake {
            cobalt: CobaltConfig { target, interval, mtu_time },
            // `cake_set_rate`: a 4096th of a second, 300 to 1514 bytes.
            quantum: byte_rate.map_or(MTU, |rate| (rate >> 12).clamp(300, MTU)),
            memory_limit: config.memory_limit.unwrap_or(unset),
            flows: vec![flow; config.queues],
            sparse: list(),
            bulk: list(),
            decaying: list(),
            from: Vec::new(),
            to: Vec::new(),
            next_packet: Time::ZERO,
            random: Rng::new(config.seed, "cake"),
            slab: Slab::new(),
            packets: 0,
            bytes: 0,
            config,
        }
    }

    /// What the shaper and shares count: all frames, each with headers and overhead.
    fn length(&self, packet: &Packet) -> u64 {
        let frames = u64::from(packet.frames.max(1));
        u64::from(packet.payload) + frames * u64::from(packet.header_bytes() + self.config.overhead)
    }

    /// `triple-isolate`: a flow's share shrinks by how many bulk flows its source has, or its
    /// destination, whichever has more. In [`FRACTION`]s of a byte.
    fn share(&self, f: u32) -> i64 {
        let flow = &self.flows[f as usize];
        let most = self.from[flow.src as usize].max(self.to[flow.dst as usize]);
        (self.quantum * FRACTION / u64::from(most.max(1))) as i64
    }

    fn becomes_bulk(&mut self, f: u32) {
        let flow = &mut self.flows[f as usize];
        flow.set = Set::Bulk;
        self.from[flow.src as usize] += 1;
        self.to[flow.dst as usize] += 1;
    }

    fn leaves(&mut self, f: u32, to: Set) {
        let flow = &mut self.flows[f as usize];
        if flow.set == Set::Bulk {
            self.from[flow.src as usize] -= 1;
            self.to[flow.dst as usize] -= 1;
        }
        flow.set = to;
    }

    fn enqueue_one(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        if self.packets == 0 {
            // No credit for the time that nobody sent.
            self.next_packet = self.next_packet.max(cx.now);
        }
        let packet = &cx.pool[id];
        let f = flow_hash(packet, self.config.seed, self.config.queues) as u32;
        let ends = packet.src.index().max(packet.dst.index()) + 1;
        if self.from.len() < ends {
            self.from.resize(ends, 0);
            self.to.resize(ends, 0);
        }
        let flow = &mut self.flows[f as usize];
        flow.waiting.push(&mut self.slab, id, packet.bytes());
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        match flow.set {
            Set::None | Set::Decaying => {
                if flow.set == Set::Decaying {
                    // The list is short, and a flow comes back from it once in many packets.
                    self.decaying.retain(|&other| other != f);
                }
                (flow.src, flow.dst, flow.set) = (packet.src.0, packet.dst.0, Set::Sparse);
                self.sparse.push_back(f);
                self.flows[f as usize].deficit = self.share(f);
            }
            Set::SparseWait => self.becomes_bulk(f),
            Set::Sparse | Set::Bulk => {}
        }
        while self.bytes > self.memory_limit {
            self.drop_from_longest(cx);
        }
    }

    /// `cake_drop`: from the head of the queue with the most bytes. (Linux keeps a heap.)
    fn drop_from_longest(&mut self, cx: &mut QueueContext<'_>) {
        let mut longest = (0, None);
        for &f in self.sparse.iter().chain(&self.bulk) {
            let bytes = self.flows[f as usize].waiting.bytes();
            if bytes > longest.0 {
                longest = (bytes, Some(f));
            }
        }
        let Some(f) = longest.1 else { return };
        self.flows[f as usize].cobalt.full(&self.cobalt, cx.now);
        if let Some(id) = self.pop(f) {
            cx.drop(id, Cause::Full);
        }
    }

    fn pop(&mut self, f: u32) -> Option<PacketId> {
        let (id, bytes) = self.flows[f as usize].waiting.pop(&mut self.slab)?;
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        Some(id)
    }

    /// The next packet of `f` that COBALT lets pass. A queue's last one may be marked, not
    /// dropped.
    fn pop_passing(&mut self, f: u32, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        loop {
            let id = self.pop(f)?;
            let Flow { cobalt, waiting, .. } = &mut self.flows[f as usize];
            let packet = &mut cx.pool[id];
            let drop = cobalt.should_drop(&self.cobalt, packet, cx.now, &mut self.random);
            if !drop || waiting.is_empty() {
                return Some(id);
            }
            cx.drop(id, Cause::Aqm);
        }
    }
}

impl Queue for Cake {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        if self.config.split_gso {
            cut(id, 0, cx, |piece, cx| self.enqueue_one(piece, cx));
        } else {
            self.enqueue_one(id, cx);
        }
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        // One that calms down is looked at first, once a packet.
        let mut calm_first = true;
        while self.packets > 0 && self.next_packet <= cx.now {
            let lists = [&mut self.sparse, &mut self.bulk, &mut self.decaying];
            let list = match lists {
                [_, _, decaying] if calm_first && !decaying.is_empty() => decaying,
                [sparse, _, _] if !sparse.is_empty() => sparse,
                [_, bulk, _] if !bulk.is_empty() => bulk,
                [_, _, decaying] => decaying,
            };
            calm_first = false;
            let f = list.pop_front()?;
            let flow = &mut self.flows[f as usize];
            if flow.deficit <= 0 {
                if flow.set == Set::Sparse && flow.waiting.is_empty() {
                    flow.set = Set::SparseWait;
                } else if flow.set == Set::Sparse {
                    self.becomes_bulk(f);
                }
                self.flows[f as usize].deficit += self.share(f);
                self.bulk.push_back(f);
                continue;
            }
            let Some(id) = self.pop_passing(f, cx) else {
                let cobalt = &mut self.flows[f as usize].cobalt;
                cobalt.empty(&self.cobalt, cx.now);
                if cobalt.at_rest(cx.now) {
                    self.leaves(f, Set::None);
                } else {
                    self.decaying.push_back(f);
                    self.leaves(f, Set::Decaying);
                }
                continue;
            };
            // It stays where it was: at the head of its list.
            match self.flows[f as usize].set {
                Set::Sparse => self.sparse.push_front(f),
                Set::Decaying | Set::None => self.decaying.push_front(f),
                Set::Bulk | Set::SparseWait => self.bulk.push_front(f),
            }
            let length = self.length(&cx.pool[id]);
            self.flows[f as usize].deficit -= (length * FRACTION) as i64;
            if let Some(rate) = self.config.rate {
                self.next_packet += rate.span(length);
            }
            return Some(id);
        }
        None
    }

    /// The shaper's clock goes on by each packet's time. While packets wait it is not set to now:
    /// who asks late may catch up, as in Linux.
    fn ready_at(&self) -> Option<Time> {
        (self.packets > 0).then_some(self.next_packet)
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
