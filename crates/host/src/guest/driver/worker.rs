//! A worker of a back end: the queues that one tasklet pair, thread or poll serves, and in
//! which order.

use std::collections::VecDeque;

use lowtail_policy::{VIF_BURST_NS, VIF_RATE, Vif};

use crate::guest::kernel::fair::TaskId;
use crate::io::Io;
use crate::io::nic::Nic;
use crate::io::packet::Packet;
use crate::io::ring::{RING_SLOTS, restart_if_empty};

/// Slots of one batch for guests: netback stops when the next packet might not fit into 256
/// (`net_rx_action`: `count + MAX_SKB_FRAGS >= NET_RX_RING_SIZE`, 18 fragments).
pub(super) const BATCH_SLOTS: u32 = 238;
/// Slots of one batch from guests (`MAX_PENDING_REQS`, 256, less the fragments of one packet).
pub(super) const MAX_PENDING: u32 = 238;
/// Slots of one batch of the back end since Linux 3.11 (`COPY_BATCH_SIZE`, 64; NAPI weight 64).
pub(super) const COPY_BATCH: u32 = 64;
/// small-first's portion: packets and bytes, whichever is less. At 5 us for a packet, about
/// 40 us, after which a process may have the vCPU.
pub(super) const PORTION_PACKETS: usize = 8;
const PORTION_BYTES: u32 = 65_536;

/// What a worker is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Hands a batch to guests.
    Receive,
    /// Takes a batch from guests.
    Send,
    /// Notifies a guest.
    Notify,
    /// Polls this NIC.
    Poll(usize),
}

/// A queue that is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    at: usize,
    pub(super) small: bool,
}

/// A queue that a small-first worker serves.
#[derive(Debug)]
struct Lane {
    queue: usize,
    vif: Vif,
    /// Packets for the guest, and their bytes.
    inbound: VecDeque<Packet>,
    bytes: u64,
    /// It has had something to do when last looked at.
    joined: bool,
    /// Its last portion was for the guest: it is the turn of what that sends.
    received: bool,
}

/// A NIC that a small-first worker polls.
#[derive(Debug)]
struct NicLane {
    nic: usize,
    vif: Vif,
    /// It has interrupted and has not been found empty since.
    ready: bool,
}

/// Who is next by the rule, so far.
#[derive(Debug, Clone, Copy)]
struct Best {
    at: usize,
    vif: Vif,
    small: bool,
    waiting: u64,
}

impl Best {
    /// The one of the two that goes first; `first` if neither does.
    fn of(first: Option<Best>, other: Best) -> Option<Best> {
        let keep = first.filter(|first| {
            !other.vif.before(
                (other.small, other.waiting),
                &first.vif,
                (first.small, first.waiting),
            )
        });
        keep.or(Some(other))
    }
}

/// The queues that one worker serves.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) thread: Option<TaskId>,
    pub(super) work: Work,
    /// The batch before this one was for guests: it is the turn of what they send.
    received: bool,
    /// What is being worked on.
    pub(super) batch: Vec<(usize, Packet)>,
    /// Guests to notify, the last one first.
    pub(super) to_notify: Vec<usize>,
    /// Packets for guests, first come first served.
    inbound: VecDeque<(usize, Packet)>,
    /// Queues with packets from guests, in turn.
    senders: VecDeque<usize>,
    lanes: Vec<Lane>,
    vtime_ns: u64,
    /// NICs that a small-first worker polls.
    nics: Vec<NicLane>,
}

impl Worker {
    pub(super) fn new(thread: Option<TaskId>) -> Self {
        Worker {
            thread,
            work: Work::Receive,
            received: false,
            batch: Vec::with_capacity(256),
            to_notify: Vec::with_capacity(64),
            inbound: VecDeque::new(),
            senders: VecDeque::with_capacity(64),
            lanes: Vec::new(),
            vtime_ns: 0,
            nics: Vec::new(),
        }
    }

    /// Serves `queue` from now on.
    pub(super) fn add(&mut self, queue: usize) {
        // No more than the guests have posted buffers for. What is reserved counts from what is in there, which is
        // nothing yet.
        self.inbound.reserve((self.lanes.len() + 1) * RING_SLOTS as usize);
        self.lanes.push(Lane {
            queue,
            vif: Vif::new(VIF_RATE, VIF_BURST_NS, 0),
            inbound: VecDeque::with_capacity(RING_SLOTS as usize),
            bytes: 0,
            joined: false,
            received: false,
        });
    }

    /// Polls NIC number `nic` from now on.
    pub(super) fn add_nic(&mut self, nic: usize) {
        self.nics.push(NicLane { nic, vif: Vif::new(VIF_RATE, VIF_BURST_NS, 0), ready: false });
    }

    /// NIC number `nic` has interrupted, or (`false`) is empty.
    pub(super) fn nic_ready(&mut self, nic: usize, ready: bool) {
        if let Some(lane) = self.nics.iter_mut().find(|lane| lane.nic == nic) {
            lane.ready = ready;
        }
    }

    /// The NIC that is next by the rule, and whether it is small.
    pub(super) fn choose_nic(&mut self, nics: &[Nic], now_ns: u64) -> Option<(usize, bool)> {
        let mut best = None;
        for lane in self.nics.iter_mut().filter(|lane| lane.ready) {
            let nic = &nics[lane.nic];
            let bytes = nic.first().map_or(0, |packet| packet.bytes);
            let small = lane.vif.small(bytes, now_ns);
            let waiting = nic.waiting() as u64;
            best = Best::of(best, Best { at: lane.nic, vif: lane.vif, small, waiting });
        }
        best.map(|best| (best.at, best.small))
    }

    /// `bytes` from NIC number `nic` are being polled.
    pub(super) fn charge_nic(&mut self, nic: usize, bytes: u32) {
        if let Some(lane) = self.nics.iter_mut().find(|lane| lane.nic == nic) {
            lane.vif.charge(bytes);
        }
    }

    /// A packet for the guest behind `queue`, with buffers.
    pub(super) fn receive(&mut self, queue: usize, packet: Packet) {
        self.inbound.push_back((queue, packet));
    }

    /// The guest behind `queue` has something to send. Returns whether that is news.
    pub(super) fn list_sender(&mut self, io: &mut Io, queue: usize) -> bool {
        let news = io.queues[queue].tx.waiting() > 0 && !self.senders.contains(&queue);
        if news {
            self.senders.push_back(queue);
        }
        news
    }

    /// Whether there is anything to do.
    pub(super) fn has_work(&self) -> bool {
        !self.to_notify.is_empty() || !self.inbound.is_empty() || !self.senders.is_empty()
    }

    /// Takes a batch for guests or from them, in turn if there are both: the loop of
    /// `netback_kthread` does one after the other.
    pub(super) fn take_either(&mut self, io: &mut Io) {
        let first = !std::mem::take(&mut self.received);
        if first {
            self.take_received(BATCH_SLOTS);
        }
        if self.batch.is_empty() {
            self.take_sent(io, MAX_PENDING);
        }
        if self.batch.is_empty() && !first {
            self.take_received(BATCH_SLOTS);
        }
        self.received = self.work == Work::Receive && !self.batch.is_empty();
    }

    /// Takes a batch of about `most` slots for guests, first come first served.
    pub(super) fn take_received(&mut self, most: u32) {
        self.work = Work::Receive;
        let mut slots = 0;
        while slots < most {
            let Some((queue, packet)) = self.inbound.pop_front() else { break };
            slots += packet.slots();
            self.batch.push((queue, packet));
        }
        restart_if_empty(&mut self.inbound);
    }

    /// Takes a batch of about `most` slots from guests, one packet from each in turn.
    pub(super) fn take_sent(&mut self, io: &mut Io, most: u32) {
        self.work = Work::Send;
        let mut slots = 0;
        while slots < most {
            let Some(queue) = self.senders.pop_front() else { break };
            let ring = &mut io.queues[queue].tx;
            if let Some(packet) = ring.take() {
                slots += packet.slots();
                self.batch.push((queue, packet));
            }
            if ring.waiting() > 0 || !ring.back_sleeps() {
                self.senders.push_back(queue);
            }
        }
    }

    /// The queue that is next by the rule: small ones first, then by bytes. `None`: nothing waits,
    /// and guests notify from now on.
    pub(super) fn choose(&mut self, io: &mut Io, now_ns: u64) -> Option<Choice> {
        while let Some((queue, packet)) = self.inbound.pop_front() {
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.queue == queue) {
                lane.bytes += u64::from(packet.bytes);
                lane.inbound.push_back(packet);
            }
        }
        let mut best = None;
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            let ring = &io.queues[lane.queue].tx;
            let (inbound, sent) = (lane.inbound.front(), ring.first());
            let (one, other) = if lane.received { (sent, inbound) } else { (inbound, sent) };
            let Some(first) = one.or(other) else {
                lane.joined = false;
                continue;
            };
            if !std::mem::replace(&mut lane.joined, true) {
                lane.vif.join(self.vtime_ns);
            }
            let small = lane.vif.small(first.bytes, now_ns);
            let waiting = lane.bytes + ring.waiting_bytes();
            best = Best::of(best, Best { at, vif: lane.vif, small, waiting });
        }
        if best.is_none() {
            // Only now do guests have to notify: while there is work they are looked at anyway.
            for lane in &self.lanes {
                io.queues[lane.queue].tx.back_sleeps();
            }
            self.senders.clear();
        }
        best.map(|best| Choice { at: best.at, small: best.small })
    }

    /// Packets that wait for guests.
    pub(super) fn inbound(&self) -> usize {
        self.inbound.len() + self.lanes.iter().map(|lane| lane.inbound.len()).sum::<usize>()
    }

    /// Takes a portion of the queue that was chosen.
    pub(super) fn take(&mut self, io: &mut Io, choice: Choice, now_ns: u64) {
        let Choice { at, small } = choice;
        let lane = &mut self.lanes[at];
        if !small {
            self.vtime_ns = self.vtime_ns.max(lane.vif.vtime_ns);
        }
        let mut bytes = 0;
        let sends = io.queues[lane.queue].tx.waiting() > 0;
        let receives = !(lane.inbound.is_empty() || lane.received && sends);
        lane.received = receives;
        self.work = if receives { Work::Receive } else { Work::Send };
        while self.batch.len() < PORTION_PACKETS && bytes < PORTION_BYTES {
            let ring = &mut io.queues[lane.queue].tx;
            let next = if receives { lane.inbound.front() } else { ring.first() };
            // One that went first as a small one goes on only as long as it is.
            let Some(next) = next else { break };
            if small && !lane.vif.small(next.bytes, now_ns) {
                break;
            }
            let packet = if receives { lane.inbound.pop_front() } else { ring.take() };
            let Some(packet) = packet else { break };
            lane.vif.charge(packet.bytes);
            bytes += packet.bytes;
            lane.bytes -= if receives { u64::from(packet.bytes) } else { 0 };
            self.batch.push((lane.queue, packet));
        }
    }
}
