//! The hold model: take the earliest event, put one back a random time later, with
//! a constant number pending. The classic measure of an event queue.
//!
//! Budget: with 10 k pending at least as fast as a plain `BinaryHeap<(u64, u64)>`
//! in the same run (`heap/…`), though ours also carries an event and can cancel it.
//! `calendar/…` carries events of 8 bytes and cannot: at 10 k pending at most half of `ours`.
//!
//! `mixed/…` has a host's delays and cancels every second event; `mixed_slots/…` does the same with
//! slots over a calendar, which is what one queue for both could be.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use divan::{Bencher, black_box, counter::ItemsCount};
use lowtail_engine::{Calendar, Duration, EventQueue, Rng, Time, Timer};

const HOLDS: usize = 100_000;
const PENDING: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// Random delays, drawn beforehand so that only the queues are measured.
fn delays() -> Vec<u64> {
    let mut rng = Rng::new(1, "hold");
    (0..1 << 16).map(|_| rng.exponential(Duration::from_us(10)).as_ps()).collect()
}

#[divan::bench(args = PENDING)]
fn ours(bencher: Bencher, pending: usize) {
    let delays = delays();
    let mut queue: EventQueue<[u64; 2]> = EventQueue::new();
    for i in 0..pending {
        queue.at(Time::from_ps(delays[i & 0xffff]), [i as u64; 2]);
    }
    let mut n = 0;
    bencher.counter(ItemsCount::new(HOLDS)).bench_local(|| {
        for _ in 0..HOLDS {
            if let Some((_, event)) = queue.pop() {
                queue.after(Duration::from_ps(delays[n & 0xffff]), black_box(event));
                n += 1;
            }
        }
    });
}

#[divan::bench(args = PENDING)]
fn calendar(bencher: Bencher, pending: usize) {
    let delays = delays();
    let mut queue: Calendar<u64> = Calendar::new();
    for i in 0..pending {
        queue.at(Time::from_ps(delays[i & 0xffff]), i as u64);
    }
    let mut n = 0;
    bencher.counter(ItemsCount::new(HOLDS)).bench_local(|| {
        for _ in 0..HOLDS {
            if let Some((_, event)) = queue.pop() {
                queue.after(Duration::from_ps(delays[n & 0xffff]), black_box(event));
                n += 1;
            }
        }
    });
}

#[divan::bench(args = PENDING)]
fn heap(bencher: Bencher, pending: usize) {
    let delays = delays();
    let mut queue: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    for i in 0..pending {
        queue.push(Reverse((delays[i & 0xffff], i as u64)));
    }
    let mut n = 0;
    bencher.counter(ItemsCount::new(HOLDS)).bench_local(|| {
        for _ in 0..HOLDS {
            if let Some(Reverse((time, event))) = queue.pop() {
                queue.push(Reverse((time + delays[n & 0xffff], black_box(event))));
                n += 1;
            }
        }
    });
}

/// A queue that can cancel.
trait Cancels {
    type Id;

    fn after(&mut self, delay: Duration, event: [u64; 2]) -> Self::Id;
    fn cancel(&mut self, id: Self::Id);
    fn pop(&mut self) -> Option<(Time, [u64; 2])>;
}

impl Cancels for EventQueue<[u64; 2]> {
    type Id = Timer;

    #[inline]
    fn after(&mut self, delay: Duration, event: [u64; 2]) -> Timer {
        EventQueue::after(self, delay, event)
    }

    #[inline]
    fn cancel(&mut self, id: Timer) {
        EventQueue::cancel(self, id);
    }

    #[inline]
    fn pop(&mut self) -> Option<(Time, [u64; 2])> {
        EventQueue::pop(self)
    }
}

/// Holds with these delays, where each event is first scheduled once in vain and cancelled.
fn hold_and_cancel(bencher: Bencher, pending: usize, delays: &[u64], mut queue: impl Cancels) {
    for i in 0..pending {
        queue.after(Duration::from_ps(delays[i & 0xffff]), [i as u64; 2]);
    }
    let mut n = 0;
    bencher.counter(ItemsCount::new(HOLDS)).bench_local(|| {
        for _ in 0..HOLDS {
            if let Some((_, event)) = queue.pop() {
                let vain = queue.after(Duration::from_ps(delays[(n + 1) & 0xffff]), event);
                queue.after(Duration::from_ps(delays[n & 0xffff]), black_box(event));
                queue.cancel(vain);
                n += 1;
            }
        }
    });
}

#[divan::bench(args = PENDING)]
fn ours_with_cancel(bencher: Bencher, pending: usize) {
    hold_and_cancel(bencher, pending, &delays(), EventQueue::new());
}

/// Slots over a calendar: a queue that can cancel and keeps its keys in a calendar. Nothing sweeps
/// the keys of cancelled events.
struct Slots {
    calendar: Calendar<u64>,
    slots: Vec<(u64, [u64; 2])>,
    free: Vec<u32>,
    sequence: u64,
}

const SLOT_BITS: u32 = 22;

impl Slots {
    fn new() -> Self {
        Slots { calendar: Calendar::new(), slots: Vec::new(), free: Vec::new(), sequence: 0 }
    }
}

impl Cancels for Slots {
    type Id = u64;

    #[inline]
    fn after(&mut self, delay: Duration, event: [u64; 2]) -> u64 {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                self.slots.push((u64::MAX, event));
                self.slots.len() - 1
            }
        };
        let owner = self.sequence << SLOT_BITS | slot as u64;
        self.sequence += 1;
        self.slots[slot] = (owner, event);
        self.calendar.after(delay, owner);
        owner
    }

    #[inline]
    fn cancel(&mut self, owner: u64) {
        let slot = owner as usize & ((1 << SLOT_BITS) - 1);
        if self.slots[slot].0 == owner {
            self.slots[slot].0 = u64::MAX;
            self.free.push(slot as u32);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(Time, [u64; 2])> {
        loop {
            let (time, owner) = self.calendar.pop()?;
            let slot = owner as usize & ((1 << SLOT_BITS) - 1);
            if self.slots[slot].0 == owner {
                self.slots[slot].0 = u64::MAX;
                self.free.push(slot as u32);
                return Some((time, self.slots[slot].1));
            }
        }
    }
}

/// A host's delays: packets and switches within microseconds, ticks and slices of milliseconds.
fn mixed_delays() -> Vec<u64> {
    let mut rng = Rng::new(1, "mixed");
    let span = |rng: &mut Rng| match rng.below(8) {
        0 => Duration::from_ms(10),
        1 => Duration::from_ms(30),
        2 => rng.exponential(Duration::from_ms(1)),
        _ => rng.exponential(Duration::from_us(3)),
    };
    (0..1 << 16).map(|_| span(&mut rng).as_ps()).collect()
}

const FEW: [usize; 4] = [10, 30, 100, 1_000];

#[divan::bench(args = FEW)]
fn mixed(bencher: Bencher, pending: usize) {
    hold_and_cancel(bencher, pending, &mixed_delays(), EventQueue::new());
}

#[divan::bench(args = FEW)]
fn mixed_slots(bencher: Bencher, pending: usize) {
    hold_and_cancel(bencher, pending, &mixed_delays(), Slots::new());
}
