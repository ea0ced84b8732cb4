//! The hold model: take the earliest event, put one back a random time later, with
//! a constant number pending. The classic measure of an event queue.
//!
//! Budget: with 10 k pending at least as fast as a plain `BinaryHeap<(u64, u64)>`
//! in the same run (`heap/…`), though ours also carries an event and can cancel it.
//! `calendar/…` carries events of 8 bytes and cannot: at 10 k pending at most half of `ours`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use divan::{Bencher, black_box, counter::ItemsCount};
use lowtail_engine::{Calendar, Duration, EventQueue, Rng, Time};

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

/// As `ours`, and each event is first scheduled once in vain and cancelled.
#[divan::bench(args = PENDING)]
fn ours_with_cancel(bencher: Bencher, pending: usize) {
    let delays = delays();
    let mut queue: EventQueue<[u64; 2]> = EventQueue::new();
    for i in 0..pending {
        queue.at(Time::from_ps(delays[i & 0xffff]), [i as u64; 2]);
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
