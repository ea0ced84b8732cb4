//! Strict priority: bands, and none is served while one before it has a packet (Linux `sch_prio`).

use lowtail_engine::Time;

use super::peek::Peeked;
use super::{Peek, Queue, QueueContext};
use crate::packet::PacketId;

/// Bands, the most urgent one first. A packet goes to that of its
/// [`class`](crate::packet::Packet::class), or to the last one.
///
/// Linux has three bands by default (`bands` of `sch_prio`, and `pfifo_fast`), filled by type of
/// service, which nobody sets in a data centre.
#[derive(Debug)]
pub struct Prio {
    bands: Vec<Peeked>,
}

impl Prio {
    /// Of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(bands: Vec<Box<dyn Queue>>) -> Self {
        assert!(!bands.is_empty(), "a priority queue needs a band");
        Prio { bands: bands.into_iter().map(Peeked::new).collect() }
    }
}

impl Queue for Prio {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let band = usize::from(cx.pool[id].class).min(self.bands.len() - 1);
        self.bands[band].enqueue(id, cx);
    }

    /// A band that holds its packets back (a shaper) lets later ones pass.
    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        self.bands.iter_mut().find_map(|band| band.dequeue(cx))
    }

    /// As `prio_peek`: of the first band that has one. A shaper that looks keeps no band from going
    /// before it.
    fn peek(&mut self, cx: &mut QueueContext<'_>) -> Peek {
        self.bands.iter_mut().find_map(|band| band.peek(cx)).map_or(Peek::Nothing, Peek::Next)
    }

    fn ready_at(&self) -> Option<Time> {
        self.bands.iter().filter_map(|band| band.ready_at()).min()
    }

    fn packets(&self) -> usize {
        self.bands.iter().map(|band| band.packets()).sum()
    }

    fn bytes(&self) -> u64 {
        self.bands.iter().map(|band| band.bytes()).sum()
    }
}
