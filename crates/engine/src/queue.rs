//! The event queue: plain values, ordered by (time, sequence number).
//!
//! Events at the same instant leave in the order in which they were put in, so a
//! run never depends on how the queue is built inside. Each event can be cancelled
//! through the [`Timer`] that scheduling it returned.
//!
//! Inside are two heaps of keys: one of what comes within microseconds, which is most
//! of what happens and little of what is pending, and one of the rest. Events themselves
//! wait in a slab and are moved twice only, in and out. Cancelling frees the slab slot at
//! once and leaves the key behind; a key whose slot carries another sequence number is
//! dead and is dropped when it reaches the top, or all at once when the dead outnumber
//! the living. Nothing is allocated per event once the heaps have grown to their working
//! size.

use crate::clock::{AdvanceError, Clock};
use crate::heap::Heap;
use crate::order::{EventKey, Sequence};
use crate::time::{Duration, Time};

/// Bits of a key's low half that name the slab slot; the rest is the sequence number.
const SLOT_BITS: u32 = 22;
/// At most this many events may be pending: four million.
const SLOT_MAX: usize = (1 << SLOT_BITS) - 1;
/// At most this many events in the life of one queue: 4.4e12, ten days at 5 M/s.
const SEQ_MAX: u64 = (1 << (64 - SLOT_BITS)) - 1;
/// What is to come within this span is near when it is scheduled: a host's interrupts and switches are, slices and guests' timers are not.
/// The order of events does not depend on it.
const NEAR: Duration = Duration::from_us(16);
/// With fewer dead keys than this, sweeping them is not worth it.
const SWEEP_MIN: usize = 64;

/// Events for which there is room from the start: more than most hosts have pending.
const ROOM: usize = 512;

/// Names one scheduled event, so that it can be cancelled.
///
/// A timer stays valid to hold after its event has happened or was cancelled;
/// cancelling it then does nothing, whatever else uses its place by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer(u64);

impl Timer {
    /// A timer that names no event.
    pub const NONE: Timer = Timer(u64::MAX);

    fn slot(self) -> usize {
        self.0 as usize & SLOT_MAX
    }
}

/// A slab slot: the number of the key that owns it, and its event. The number is the sequence
/// number with the slot below it.
#[derive(Debug, Clone, Copy)]
struct Slot<E> {
    owner: u64,
    event: E,
}

/// No key has this number, since `SLOT_MAX` itself is never handed out.
const FREE: u64 = u64::MAX;

/// Whether the event of `key` is still to come.
#[inline]
fn is_alive<E>(slots: &[Slot<E>], key: EventKey) -> bool {
    slots[key.number() as usize & SLOT_MAX].owner == key.number()
}

/// The heap with the earliest key.
#[inline]
fn next<'a>(near: &'a mut Heap, far: &'a mut Heap) -> &'a mut Heap {
    let is_near = match (near.first(), far.first()) {
        (Some(near), Some(far)) => near < far,
        (near, _) => near.is_some(),
    };
    if is_near { near } else { far }
}

/// A queue of pending events of type `E`, and the clock that they move.
#[derive(Debug, Clone)]
pub struct EventQueue<E> {
    clock: Clock,
    sequence: Sequence,
    near: Heap,
    far: Heap,
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        // Key and event together are the "event" of the design: 32 bytes at most.
        const { assert!(size_of::<EventKey>() + size_of::<E>() <= 32, "event larger than 16 bytes") };
        EventQueue {
            clock: Clock::default(),
            sequence: Sequence::default(),
            near: Heap::with_capacity(ROOM),
            far: Heap::with_capacity(ROOM),
            slots: Vec::with_capacity(ROOM),
            free: Vec::with_capacity(ROOM),
        }
    }

    /// The time of the event taken last.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Events that are still to come.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing is still to come.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Events taken so far.
    pub fn popped(&self) -> u64 {
        self.clock.events()
    }

    /// Schedules `event` for `delay` from now.
    pub fn after(&mut self, delay: Duration, event: E) -> Timer {
        self.at(self.now() + delay, event)
    }

    /// Schedules `event` at `time`, behind everything already scheduled for then.
    ///
    /// # Panics
    /// If `time` is past, if four million events are pending, or after 4.4e12 events.
    pub fn at(&mut self, time: Time, event: E) -> Timer {
        self.clock.check(time);
        let sequence = self.sequence.take(SEQ_MAX);
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                assert!(self.slots.len() < SLOT_MAX, "too many pending events");
                self.slots.push(Slot { owner: FREE, event });
                self.slots.len() - 1
            }
        };
        let owner = sequence << SLOT_BITS | slot as u64;
        self.slots[slot] = Slot { owner, event };
        let is_near = time.since(self.now()) < NEAR;
        let heap = if is_near { &mut self.near } else { &mut self.far };
        heap.push(EventKey::new(time, owner));
        Timer(owner)
    }

    /// Takes an event back. Returns it, or `None` if it already happened or was cancelled.
    pub fn cancel(&mut self, timer: Timer) -> Option<E> {
        let slot = self.slots.get_mut(timer.slot())?;
        if timer == Timer::NONE || slot.owner != timer.0 {
            return None;
        }
        slot.owner = FREE;
        let event = slot.event;
        self.free.push(timer.slot() as u32);
        let dead = self.keys() - self.len();
        if dead > SWEEP_MIN && dead > self.len() {
            self.sweep();
        }
        Some(event)
    }

    /// Whether the event of `timer` is still to come.
    pub fn is_pending(&self, timer: Timer) -> bool {
        timer != Timer::NONE && self.slots.get(timer.slot()).is_some_and(|s| s.owner == timer.0)
    }

    /// When the next event is; `None` if nothing is still to come.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        loop {
            let heap = next(&mut self.near, &mut self.far);
            let key = heap.first()?;
            if is_alive(&self.slots, key) {
                return Some(key.time());
            }
            heap.remove_first();
        }
    }

    /// Moves the clock to `time`, to which something outside the queue has come.
    ///
    /// # Errors
    /// If `time` is past, or an event is still to come before it.
    #[inline]
    pub fn advance_to(&mut self, time: Time) -> Result<(), AdvanceError> {
        let next = self.next_time();
        self.clock.advance_to(time, next)
    }

    /// Takes the earliest event and moves the clock to it.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.pop_until(Time::NEVER)
    }

    /// Takes the earliest event if it is not later than `end`, and moves the clock to it.
    #[inline]
    pub fn pop_until(&mut self, end: Time) -> Option<(Time, E)> {
        loop {
            let heap = next(&mut self.near, &mut self.far);
            let key = heap.first()?;
            let owner = key.number();
            let index = owner as usize & SLOT_MAX;
            let slot = &mut self.slots[index];
            if slot.owner != owner {
                heap.remove_first();
                continue;
            }
            let time = key.time();
            if time > end {
                return None;
            }
            slot.owner = FREE;
            let event = slot.event;
            self.free.push(index as u32);
            heap.remove_first();
            self.clock.event_at(time);
            return Some((time, event));
        }
    }

    /// Keys in both heaps, those of cancelled events among them.
    fn keys(&self) -> usize {
        self.near.len() + self.far.len()
    }

    /// Drops the keys of cancelled events and restores the heaps.
    fn sweep(&mut self) {
        let slots = &self.slots;
        self.near.retain(|key| is_alive(slots, key));
        self.far.retain(|key| is_alive(slots, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_leave_in_order_of_arrival() {
        let mut queue = EventQueue::new();
        for n in 0..100u32 {
            queue.at(Time::from_ps(u64::from(n % 3)), n);
        }
        let mut expected: Vec<u32> = (0..100).collect();
        expected.sort_by_key(|n| n % 3); // a stable sort: by time, then by arrival
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|(_, n)| n).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn a_stale_timer_cannot_cancel_the_slots_next_owner() {
        let mut queue = EventQueue::new();
        let first = queue.at(Time::from_ps(1), 1u32);
        assert_eq!(queue.cancel(first), Some(1));
        let second = queue.at(Time::from_ps(2), 2u32);
        assert_eq!(queue.cancel(first), None);
        assert!(queue.is_pending(second));
        assert_eq!(queue.pop(), Some((Time::from_ps(2), 2)));
        assert!(!queue.is_pending(second));
        assert_eq!(queue.cancel(Timer::NONE), None);
    }

    #[test]
    fn cancelled_events_do_not_pile_up() {
        let mut queue = EventQueue::new();
        for n in 0..1_000_000u64 {
            let timer = queue.at(Time::from_ps(n + 1_000), n);
            queue.cancel(timer);
        }
        assert!(queue.is_empty());
        assert!(queue.keys() <= SWEEP_MIN + 1 && queue.slots.len() <= 2);
    }

    #[test]
    fn stops_at_the_end() {
        let mut queue = EventQueue::new();
        queue.at(Time::from_ps(10), ());
        assert_eq!(queue.pop_until(Time::from_ps(9)), None);
        assert_eq!(queue.pop_until(Time::from_ps(10)), Some((Time::from_ps(10), ())));
        assert_eq!(queue.popped(), 1);
    }

    #[test]
    fn tells_when_the_next_event_is_and_waits_for_others() {
        let ps = Time::from_ps;
        let mut queue = EventQueue::new();
        assert_eq!(queue.next_time(), None);
        let first = queue.at(ps(10), 1u32);
        queue.at(ps(20), 2);
        assert_eq!(queue.next_time(), Some(ps(10)));
        queue.cancel(first);
        assert_eq!(queue.next_time(), Some(ps(20)));
        assert_eq!(queue.advance_to(ps(15)), Ok(()));
        queue.after(Duration::from_ps(5), 3);
        assert_eq!(queue.advance_to(ps(20)), Ok(()));
        assert_eq!((queue.pop(), queue.pop()), (Some((ps(20), 2)), Some((ps(20), 3))));
        assert_eq!((queue.next_time(), queue.popped()), (None, 2));
    }

    #[test]
    fn the_clock_skips_no_event_and_never_goes_back() {
        let ps = Time::from_ps;
        let mut queue = EventQueue::new();
        queue.at(ps(10), ());
        assert_eq!(queue.advance_to(ps(11)), Err(AdvanceError::BehindEvent(ps(10))));
        assert_eq!((queue.advance_to(ps(10)), queue.now()), (Ok(()), ps(10)));
        assert_eq!(queue.advance_to(ps(9)), Err(AdvanceError::Past(ps(10))));
    }

    #[derive(Debug, Clone)]
    enum Op {
        Put(u64),
        Pop,
        Cancel(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            4 => (0u64..50).prop_map(Op::Put),
            2 => Just(Op::Pop),
            3 => (0usize..64).prop_map(Op::Cancel),
        ];
        proptest::collection::vec(op, 0..2_000)
    }

    proptest! {
        /// Against the simplest thing that can be right: a sorted list.
        #[test]
        fn agrees_with_a_sorted_list(ops in ops()) {
            let mut queue = EventQueue::new();
            let mut model: Vec<(Time, usize)> = Vec::new();
            let mut timers = Vec::new();
            for op in ops {
                match op {
                    Op::Put(delay) => {
                        let time = queue.now() + Duration::from_ps(delay);
                        let n = timers.len();
                        timers.push(queue.at(time, n));
                        let place = model.partition_point(|&(t, _)| t <= time);
                        model.insert(place, (time, n));
                    }
                    Op::Pop => {
                        let expected = if model.is_empty() { None } else { Some(model.remove(0)) };
                        prop_assert_eq!(queue.pop(), expected);
                    }
                    Op::Cancel(back) => {
                        let Some(n) = timers.len().checked_sub(back + 1) else { continue };
                        let place = model.iter().position(|&(_, m)| m == n);
                        let expected = place.map(|i| model.remove(i).1);
                        prop_assert_eq!(queue.cancel(timers[n]), expected);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.next_time(), model.first().map(|&(time, _)| time));
            }
            let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert_eq!(rest, model);
        }
    }
}
