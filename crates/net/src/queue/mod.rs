//! Queueing disciplines: who of those that wait for a transmitter is next, and who is not let
//! wait.
//!
//! Each is one file, and they compose: a tagger or a splitter passes on to another discipline,
//! bands hold one each.

pub mod by_rule;
pub mod cake;
mod chain;
pub mod codel;
pub mod drr;
pub mod fifo;
pub mod fq_codel;
pub mod htb;
pub mod oracle;
mod peek;
pub mod prio;
pub mod small_first;
pub mod split;
pub mod tag;
pub mod tbf;
mod tokens;

use lowtail_engine::Time;

use crate::packet::{PacketId, Pool};

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// No room in the queue.
    Full,
    /// The queue's management of delay (CoDel and the like).
    Aqm,
    /// No room in the receive ring or a back end of a host.
    Host,
    /// Lost on a link that loses at random.
    Link,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 4] = [Cause::Full, Cause::Aqm, Cause::Host, Cause::Link];
}

/// What a discipline says that is asked for its next packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// This many bytes; it stays where it is, and a more urgent one that comes meanwhile goes first.
    Next(u64),
    /// There is none, or not yet.
    Nothing,
    /// It does not know before it has taken the packet out.
    Takes,
}

/// What a discipline may touch.
#[derive(Debug)]
pub struct QueueContext<'a> {
    /// Now.
    pub now: Time,
    /// The packets.
    pub pool: &'a mut Pool,
    /// Those that were dropped by this call; whoever calls takes them out of the pool.
    pub dropped: &'a mut Vec<(PacketId, Cause)>,
}

impl QueueContext<'_> {
    /// Drops `id`.
    pub fn drop(&mut self, id: PacketId, cause: Cause) {
        self.dropped.push((id, cause));
    }
}

/// A queueing discipline.
///
/// Whoever enqueues has set the packet's [`queued`](crate::packet::Packet::queued). A discipline
/// allocates nothing once it has grown to its size.
pub trait Queue: Send + std::fmt::Debug {
    /// Takes `id` in, or drops it, or another one to make room.
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>);

    /// The next one to be transmitted. `None`: there is none, or not yet, see
    /// [`ready_at`](Self::ready_at).
    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId>;

    /// What [`dequeue`](Self::dequeue) would give now, for a shaper that asks before it has tokens.
    fn peek(&mut self, _: &mut QueueContext<'_>) -> Peek {
        Peek::Takes
    }

    /// When to ask again after [`dequeue`](Self::dequeue) has given none although packets wait:
    /// a shaper holds them back. `None`: nothing waits.
    fn ready_at(&self) -> Option<Time> {
        None
    }

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Their bytes, as [`Packet::bytes`](crate::packet::Packet::bytes) counts them.
    fn bytes(&self) -> u64;
}
