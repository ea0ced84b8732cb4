//! Blame for queues: whose bytes were in front of whose packets at a port.
//!
//! A packet waits from its coming to the port until the transmitter begins to send it, or until it is
//! dropped: in the discipline, and in the ring of the NIC. In front of it is all that the transmitter sends meanwhile,
//! in bytes on the wire; of what is being sent when it comes, that is the rest. So where nothing is
//! shaped, the bytes in front are the time that was waited, times the rate of the link.
//!
//! Nothing is sampled. A port with a discipline counts when the transmitter begins with a packet, for all that wait then;
//! for one that comes in the middle the rest is added, from one that is dropped in the middle the rest is taken
//! away. A plain port knows all that is in front when a packet comes, and counts it then.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};

use crate::flow::Flow;
use crate::packet::Packet;
use crate::rate::Rate;

/// For whom packets count: a class for each traffic and each datagram flow. A connection's acknowledgements are of its class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlameConfig {
    /// By the number of the traffic; classes are numbers from 0, without gaps.
    pub traffic: Vec<u8>,
    /// By the number of the datagram flow.
    pub datagrams: Vec<u8>,
}

impl BlameConfig {
    /// How many classes there are.
    pub fn classes(&self) -> usize {
        let most = self.traffic.iter().chain(&self.datagrams).max();
        most.map_or(0, |&most| usize::from(most) + 1)
    }
}

/// Connections in one place whose packets are told apart. One follows the other after a second at least: a packet that waits longer
/// than all of these counts for another traffic.
const GENERATIONS: usize = 16;

/// The classes of packets.
#[derive(Debug)]
pub(super) struct Classes {
    config: BlameConfig,
    count: usize,
    /// By flow: the classes of the last connections in its place, by their generation. Of flows beyond the end all are the same.
    former: Vec<[u8; GENERATIONS]>,
}

impl Classes {
    pub(super) fn new(config: BlameConfig) -> Self {
        Classes { count: config.classes(), config, former: Vec::new() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The place of flow number `at` is a connection's of number `traffic` next.
    pub(super) fn replace(&mut self, at: usize, flows: &[Flow], traffic: u32) {
        let class = |traffic: u32| self.config.traffic[traffic as usize];
        for flow in &flows[self.former.len().min(at + 1)..=at] {
            self.former.push([class(flow.traffic); GENERATIONS]);
        }
        let next = usize::from(flows[at].generation.wrapping_add(1));
        self.former[at][next % GENERATIONS] = class(traffic);
    }

    /// That of `packet`.
    pub(super) fn of(&self, packet: &Packet, flows: &[Flow]) -> u8 {
        let at = packet.flow.index();
        if packet.kind.is_of_datagram_flow() {
            return self.config.datagrams[at];
        }
        match self.former.get(at) {
            Some(classes) => classes[usize::from(packet.generation) % GENERATIONS],
            None => self.config.traffic[flows[at].traffic as usize],
        }
    }
}

/// What became of the packets of a class at a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiter {
    /// Packets that were let in: that were sent, were dropped after they had waited, or wait still; as the discipline holds them: a
    /// segment that was not cut up is one. Those that are refused at once have not waited.
    pub packets: u64,
    /// Those of them that were dropped.
    pub dropped: u64,
    /// Bytes on the wire that were sent. A plain port counts them when the packet comes.
    pub sent_bytes: u64,
    /// How long all of them together have waited. A plain port counts that, too, when the packet comes.
    pub waited: Duration,
    /// How long one has waited at most, of those that wait no more.
    pub longest: Duration,
}

impl Waiter {
    /// A packet is through.
    fn left(&mut self, waited: Duration) {
        self.packets += 1;
        self.longest = self.longest.max(waited);
    }

    /// So many packets have waited for `span`.
    fn wait(&mut self, packets: u32, span: Duration) {
        let waited = span.as_ps().saturating_mul(u64::from(packets));
        self.waited = Duration::from_ps(self.waited.as_ps().saturating_add(waited));
    }
}

/// Packets of a class that wait in a discipline, and from when on so many do.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    packets: u32,
    since: Time,
}

/// A packet in a plain port.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// When it will have been sent.
    sent: Time,
    class: u8,
    bytes: u32,
}

/// Blame at one port.
#[derive(Debug)]
pub struct PortBlame {
    /// By class.
    waiters: Box<[Waiter]>,
    /// Bytes in front, by waiter, then by owner.
    bytes: Box<[u64]>,
    /// With a discipline: what waits, by class.
    waiting: Box<[Waiting]>,
    /// With a discipline: whose the packet is that was sent last.
    sending: u8,
    /// Of a plain port: packets that have not all been sent, the first of which is being sent.
    pending: VecDeque<Pending>,
    /// Bytes of those behind the first one, by class.
    behind: Box<[u64]>,
}

impl PortBlame {
    pub(super) fn new(classes: usize) -> Self {
        PortBlame {
            waiters: vec![Waiter::default(); classes].into(),
            bytes: vec![0; classes * classes].into(),
            waiting: vec![Waiting::default(); classes].into(),
            sending: 0,
            pending: VecDeque::new(),
            behind: vec![0; classes].into(),
        }
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.waiters.len()
    }

    /// What became of the packets of a class until `now`.
    pub fn waiter(&self, class: usize, now: Time) -> Waiter {
        let (mut waiter, waiting) = (self.waiters[class], self.waiting[class]);
        waiter.packets += u64::from(waiting.packets);
        waiter.wait(waiting.packets, now.saturating_since(waiting.since));
        waiter
    }

    /// Bytes in front of the packets of class `waiter`, by the class whose they were. Those in front of a packet that was dropped
    /// count up to the drop.
    pub fn in_front(&self, waiter: usize) -> &[u64] {
        let classes = self.waiters.len();
        &self.bytes[waiter * classes..][..classes]
    }

    /// A plain port has taken in a packet of `bytes` on the wire, which waits until `start` and has been sent at `sent`.
    pub(super) fn came(
        &mut self,
        class: u8,
        bytes: u32,
        now: Time,
        (start, sent): (Time, Time),
        rate: Rate,
    ) {
        while self.pending.front().is_some_and(|first| first.sent <= now) {
            self.pending.pop_front();
            if let Some(next) = self.pending.front() {
                self.behind[usize::from(next.class)] -= u64::from(next.bytes);
            }
        }
        let (classes, waiter) = (self.waiters.len(), usize::from(class));
        if let Some(first) = self.pending.front() {
            let row = &mut self.bytes[waiter * classes..][..classes];
            row.iter_mut().zip(&self.behind).for_each(|(front, behind)| *front += behind);
            row[usize::from(first.class)] += rate.bytes(first.sent.since(now));
            self.behind[waiter] += u64::from(bytes);
        }
        self.pending.push_back(Pending { sent, class, bytes });
        self.waiters[waiter].left(start.since(now));
        self.waiters[waiter].wait(1, start.since(now));
        self.waiters[waiter].sent_bytes += u64::from(bytes);
    }

    /// So many `packets` have come to the discipline, while `rest` bytes of the packet that is being sent are still to be sent.
    pub(super) fn entered(&mut self, class: u8, packets: u32, rest: u64, now: Time) {
        self.waiting(class, now).packets += packets;
        *self.cell(class, self.sending) += u64::from(packets) * rest;
    }

    /// The discipline has dropped a packet that has `waited`, while `rest` bytes of the packet that is being sent are still to be sent.
    pub(super) fn dropped(&mut self, class: u8, waited: Duration, rest: u64, now: Time) {
        self.stops(class, now);
        let cell = self.cell(class, self.sending);
        *cell = cell.saturating_sub(rest);
        if !waited.is_zero() {
            let waiter = &mut self.waiters[usize::from(class)];
            waiter.left(waited);
            waiter.dropped += 1;
        }
    }

    /// The transmitter begins to send a packet of `bytes` on the wire that has `waited`.
    pub(super) fn began(&mut self, class: u8, bytes: u64, waited: Duration, now: Time) {
        self.stops(class, now);
        let (classes, owner) = (self.waiters.len(), usize::from(class));
        for (row, waiting) in self.bytes.chunks_exact_mut(classes).zip(&self.waiting) {
            row[owner] += u64::from(waiting.packets) * bytes;
        }
        self.waiters[owner].left(waited);
        self.waiters[owner].sent_bytes += bytes;
        self.sending = class;
    }

    /// Nothing waits any more.
    pub(super) fn emptied(&mut self) {
        self.waiting.fill(Waiting::default());
    }

    fn cell(&mut self, waiter: u8, owner: u8) -> &mut u64 {
        &mut self.bytes[usize::from(waiter) * self.waiters.len() + usize::from(owner)]
    }

    /// A packet of `class` waits no more.
    fn stops(&mut self, class: u8, now: Time) {
        let waiting = self.waiting(class, now);
        waiting.packets = waiting.packets.saturating_sub(1);
    }

    /// What of `class` waits, of which the number is about to change.
    fn waiting(&mut self, class: u8, now: Time) -> &mut Waiting {
        let waiting = &mut self.waiting[usize::from(class)];
        let span = now.since(waiting.since);
        self.waiters[usize::from(class)].wait(waiting.packets, span);
        waiting.since = now;
        waiting
    }
}
