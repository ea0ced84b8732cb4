//! The receiving end of a TCP connection: what has come, and when to say so.

use lowtail_engine::Time;

use super::config::{FLAG_ECHO, TcpConfig};
use super::ranges::Ranges;
use crate::packet::{Ecn, Packet};

/// Blocks of a selective acknowledgement: three fit beside time stamps (RFC 2018).
pub const SACK_BLOCKS: usize = 3;

/// Segments at the start of a connection that are acknowledged at once (Linux
/// `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u8 = 16;

/// Blocks of a selective acknowledgement, those not used empty.
pub type Sack = [(u64, u64); SACK_BLOCKS];

/// What is to be done about a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Acknowledge now.
    Now,
    /// Acknowledge at this time, unless something else has until then.
    By(Time),
    /// A timer for that runs already.
    Wait,
}

/// What an acknowledgement carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// All bytes before this one are there.
    pub ack: u64,
    /// What has come beyond, if anything has.
    pub sack: Option<Sack>,
    /// The time stamp of what it acknowledges.
    pub echo: Time,
    /// When the latest segment was sent: the sender knows that from the blocks.
    pub cause: Time,
    /// For the packet.
    pub flags: u8,
}

/// The receiving end.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// All bytes before this one are there.
    pub next: u64,
    /// What has come beyond.
    ahead: Ranges,
    /// The range of the segment that came last, if it lies beyond.
    latest: Option<u64>,
    /// Segments that have not been acknowledged.
    unacked: u16,
    /// Time stamp to echo; and that of the latest segment.
    echo: Time,
    cause: Time,
    last_ack: u64,
    /// The last segment was marked.
    marked: bool,
    quick: u8,
    /// When to acknowledge at the latest; `NEVER`: nothing is due.
    pub due: Time,
}

impl Receiver {
    /// At the start of a connection.
    pub fn new() -> Self {
        Receiver {
            next: 0,
            ahead: Ranges::new(),
            latest: None,
            unacked: 0,
            echo: Time::ZERO,
            cause: Time::ZERO,
            last_ack: 0,
            marked: false,
            quick: QUICK_ACKS,
            due: Time::NEVER,
        }
    }

    /// Whether what has come before `packet` is to be acknowledged first, since the mark changes
    /// (RFC 8257, 3.2).
    pub fn mark_changes(&self, packet: &Packet, config: &TcpConfig) -> bool {
        let marked = packet.ecn == Ecn::Marked;
        config.echo_each() && self.unacked > 0 && marked != self.marked
    }

    /// `packet` has come. Returns what to do now.
    pub fn received(&mut self, packet: &Packet, config: &TcpConfig, now: Time) -> Answer {
        let (from, to) = (packet.seq, packet.seq + u64::from(packet.payload));
        if from <= self.last_ack {
            self.echo = packet.sent;
        }
        self.cause = packet.sent;
        let marked = packet.ecn == Ecn::Marked;
        let old = to <= self.next;
        let gap = from > self.next || !self.ahead.is_empty();
        if from <= self.next {
            self.next = self.next.max(to);
            if !self.ahead.is_empty() {
                if let Some((_, end)) = self.ahead.around(self.next) {
                    self.next = end;
                }
                self.ahead.remove_below(self.next);
            }
            self.latest = None;
        } else {
            self.ahead.insert(from, to);
            self.latest = Some(from);
        }
        self.marked = if config.echo_each() { marked } else { self.marked || marked };
        self.unacked += packet.frames;
        let quick = self.quick > 0;
        self.quick -= u8::from(quick);
        if old || gap || quick || self.unacked >= u16::from(config.ack_every) {
            return Answer::Now;
        }
        if self.due == Time::NEVER {
            self.due = now + config.delayed_ack;
            return Answer::By(self.due);
        }
        Answer::Wait
    }

    /// An acknowledgement goes out.
    pub fn acknowledge(&mut self, config: &TcpConfig) -> Acknowledgement {
        self.unacked = 0;
        self.due = Time::NEVER;
        self.last_ack = self.next;
        let flags = if self.marked { FLAG_ECHO } else { 0 };
        if !config.echo_each() {
            self.marked = false;
        }
        let sack = (!self.ahead.is_empty()).then(|| self.sack());
        Acknowledgement { ack: self.next, sack, echo: self.echo, cause: self.cause, flags }
    }

    /// The block with the latest segment first, then the highest others (RFC 2018, 4).
    fn sack(&self) -> Sack {
        let mut blocks = [(0, 0); SACK_BLOCKS];
        let first = self.latest.and_then(|at| self.ahead.around(at));
        let others = self.ahead.iter().rev().filter(|&range| Some(range) != first);
        for (block, range) in blocks.iter_mut().zip(first.into_iter().chain(others)) {
            *block = range;
        }
        blocks
    }
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver::new()
    }
}
