//! An event queue for very many small events, none of which is ever taken back.
//!
//! [`Calendar`] orders by (time, sequence number) exactly as [`EventQueue`](crate::EventQueue)
//! does, and cannot cancel. A network of thousands of ports has tens of thousands of events
//! pending, nearly all of them in the next few microseconds; a heap of that size misses the
//! cache on every level. Here an event is written twice and read twice, wherever it belongs:
//!
//! - The *batch* is a sorted list of what comes next. Events that belong into it are inserted.
//! - The *wheel* is a ring of buckets, 2^shift ps each, unsorted: a bucket is sorted when its
//!   turn comes and goes behind the batch, early enough that some events are always known in
//!   advance ([`Calendar::upcoming`]): a caller can fetch what they will need.
//! - What lies behind the wheel's horizon waits in a heap, and moves into its bucket when the
//!   horizon comes to that.
//!
//! No sequence numbers are kept in the wheel: all that enters a bucket does so in sequence,
//! since the heap's events for it come before the first that is put there directly, and sorting
//! does not swap equals. Width and number of buckets follow from counts of events, never from a
//! clock, so that a run repeats itself. Chunks of buckets are used again, last freed first: what
//! is written stays in the cache, and nothing is allocated per event.

use std::collections::BinaryHeap;

use crate::clock::{AdvanceError, Clock};
use crate::order::{EventKey, Sequence};
use crate::time::{Duration, Time};

/// Events that the batch holds at least, if there are as many in the wheel.
pub const LOOKAHEAD: usize = 16;

/// Distinct times for which a bucket is too wide, or too narrow.
const BUCKET_MOST: u64 = 16;
const BUCKET_LEAST: u64 = 4;
/// Buckets are 1 ps to 17 s wide, to begin with 65 ns.
const SHIFT_MAX: u32 = 44;
const SHIFT_START: u32 = 16;
const BUCKETS_START: usize = 256;
const BUCKETS_MAX: usize = 1 << 15;
/// So many events between two looks at the width, and four times as many as are pending.
const PERIOD: u64 = 4_096;
/// Bits of a key for sorting that name the place in the bucket; the others are the time in it.
const PLACE_BITS: u32 = 20;
/// Entries of a chunk: four cache lines with its link.
const CHUNK: usize = 15;
const NO_CHUNK: u32 = u32::MAX;

/// An event and when it is.
#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    ps: u64,
    event: E,
}

/// Part of a bucket. Those of a bucket are linked, the one filled last first.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Chunk<E> {
    entries: [Entry<E>; CHUNK],
    before: u32,
}

/// A bucket: its last chunk, and the events in all.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    last: u32,
    len: u32,
}

const EMPTY: Bucket = Bucket { last: NO_CHUNK, len: 0 };

/// An event behind the horizon.
#[derive(Debug, Clone, Copy)]
struct Overflow<E> {
    key: EventKey,
    event: E,
}

impl<E> PartialEq for Overflow<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Overflow<E> {}
impl<E> PartialOrd for Overflow<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Overflow<E> {
    /// The earliest is the greatest, and so on top of the heap.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.key.cmp(&self.key)
    }
}

impl<E> Overflow<E> {
    fn ps(&self) -> u64 {
        self.key.time().as_ps()
    }
}

/// What the width is chosen by, since it was last looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Buckets emptied, events in them, and different times among those.
    buckets: u64,
    events: u64,
    times: u64,
    /// Events put into the wheel or behind it, and behind it.
    put: u64,
    overflow: u64,
}

/// Pending events of type `E`, and the clock that they move.
#[derive(Debug, Clone)]
pub struct Calendar<E> {
    clock: Clock,
    /// Sorted; what stands before `next` has happened.
    batch: Vec<Entry<E>>,
    next: usize,
    /// A bucket is 2^shift ps wide.
    shift: u32,
    /// Number, from time zero, of the first bucket that is not in the batch.
    head: u64,
    /// Buckets `head..head + buckets.len()`, each at its number modulo their number, a power of 2.
    buckets: Vec<Bucket>,
    /// A bit for each bucket that holds something.
    filled: Vec<u64>,
    in_wheel: usize,
    chunks: Vec<Chunk<E>>,
    free: Vec<u32>,
    overflow: BinaryHeap<Overflow<E>>,
    sequence: Sequence,
    counts: Counts,
    /// For sorting, empty between calls.
    keys: Vec<u64>,
    scratch: Vec<Entry<E>>,
}

impl<E: Copy> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> Calendar<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        const { assert!(size_of::<E>() <= 8, "event larger than 8 bytes") };
        Calendar {
            clock: Clock::default(),
            batch: Vec::with_capacity(256),
            next: 0,
            shift: SHIFT_START,
            head: 0,
            buckets: vec![EMPTY; BUCKETS_START],
            filled: vec![0; BUCKETS_START / 64],
            in_wheel: 0,
            chunks: Vec::new(),
            free: Vec::new(),
            overflow: BinaryHeap::new(),
            sequence: Sequence::default(),
            counts: Counts::default(),
            keys: Vec::with_capacity(256),
            scratch: Vec::with_capacity(256),
        }
    }

    /// The time of the event taken last.
    #[inline]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Events that are still to come.
    pub fn len(&self) -> usize {
        self.batch.len() - self.next + self.in_wheel + self.overflow.len()
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
    #[inline]
    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now() + delay, event);
    }

    /// Schedules `event` at `time`, behind everything already scheduled for then.
    ///
    /// # Panics
    /// If `time` is past.
    #[inline]
    pub fn at(&mut self, time: Time, event: E) {
        self.clock.check(time);
        let ps = time.as_ps();
        let bucket = ps >> self.shift;
        if bucket < self.head {
            return self.insert(ps, event);
        }
        self.counts.put += 1;
        if bucket - self.head < self.buckets.len() as u64 {
            self.put(bucket, Entry { ps, event });
        } else {
            self.put_overflow(ps, event);
        }
    }

    /// The event `n` places behind the next one, if that is known already. What is scheduled in
    /// the meantime may come before it: good for fetching, not for deciding.
    #[inline]
    pub fn upcoming(&self, n: usize) -> Option<E> {
        self.batch.get(self.next + n).map(|entry| entry.event)
    }

    /// When the next event is; `None` if nothing is still to come.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        match self.batch.get(self.next) {
            Some(entry) => Some(Time::from_ps(entry.ps)),
            None => self.next_time_behind(),
        }
    }

    /// The same, when the batch is empty.
    fn next_time_behind(&self) -> Option<Time> {
        let ps = match self.in_wheel {
            1.. => {
                let bucket = self.buckets[self.slot(self.first_filled())];
                let (mut at, mut least, mut len) = (bucket.last, u64::MAX, bucket.len as usize);
                while len > 0 {
                    let (chunk, n) = (&self.chunks[at as usize], (len - 1) % CHUNK + 1);
                    least = chunk.entries[..n].iter().fold(least, |least, e| least.min(e.ps));
                    (at, len) = (chunk.before, len - n);
                }
                Some(least)
            }
            0 => self.overflow.peek().map(|event| event.ps()),
        };
        ps.map(Time::from_ps)
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
        if self.next + LOOKAHEAD >= self.batch.len() {
            self.load(end.as_ps());
        }
        let entry = *self.batch.get(self.next)?;
        let time = Time::from_ps(entry.ps);
        if time > end {
            return None;
        }
        self.next += 1;
        self.clock.event_at(time);
        Some((time, entry.event))
    }

    /// Puts an event between those that come next, behind its equals.
    fn insert(&mut self, ps: u64, event: E) {
        let place = self.batch[self.next..].partition_point(|entry| entry.ps <= ps);
        self.batch.insert(self.next + place, Entry { ps, event });
    }

    #[cold]
    fn put_overflow(&mut self, ps: u64, event: E) {
        self.counts.overflow += 1;
        let key = EventKey::new(Time::from_ps(ps), self.sequence.take(u64::MAX));
        self.overflow.push(Overflow { key, event });
    }

    /// Where bucket number `bucket` is in the wheel.
    #[inline]
    fn slot(&self, bucket: u64) -> usize {
        bucket as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn put(&mut self, bucket: u64, entry: Entry<E>) {
        let place = self.slot(bucket);
        let bucket = &mut self.buckets[place];
        let at = bucket.len as usize % CHUNK;
        if at == 0 {
            let before = bucket.last;
            bucket.last = match self.free.pop() {
                Some(free) => {
                    self.chunks[free as usize].before = before;
                    free
                }
                None => {
                    self.chunks.push(Chunk { entries: [entry; CHUNK], before });
                    (self.chunks.len() - 1) as u32
                }
            };
            self.filled[place / 64] |= 1 << (place % 64);
        }
        bucket.len += 1;
        self.chunks[bucket.last as usize].entries[at] = entry;
        self.in_wheel += 1;
    }

    /// The number of the first bucket with something in it. There is one.
    fn first_filled(&self) -> u64 {
        let start = self.slot(self.head);
        // From the head's bit on; the word it is in comes once more at the end.
        let mut word = start / 64;
        let mut bits = self.filled[word] & (!0 << (start % 64));
        while bits == 0 {
            word = (word + 1) & (self.filled.len() - 1);
            bits = self.filled[word];
        }
        let place = word * 64 + bits.trailing_zeros() as usize;
        self.head + (place.wrapping_sub(start) & (self.buckets.len() - 1)) as u64
    }

    /// Moves buckets into the batch until that is long enough, as far as they begin by `end`.
    fn load(&mut self, end: u64) {
        // What has happened makes room, seldom enough to cost little.
        if self.next > 4 * LOOKAHEAD {
            self.batch.drain(..self.next);
            self.next = 0;
        }
        while self.next + LOOKAHEAD >= self.batch.len() {
            if self.counts.events >= PERIOD.max(4 * self.in_wheel as u64) {
                self.adapt();
            }
            if self.in_wheel == 0 {
                // Nothing until what is behind the horizon.
                let Some(event) = self.overflow.peek().filter(|event| event.ps() <= end) else {
                    return;
                };
                self.head = self.head.max(event.ps() >> self.shift);
                self.draw_near();
            }
            let bucket = self.first_filled();
            if bucket << self.shift > end {
                return;
            }
            self.take(bucket);
            self.head = bucket + 1;
            self.draw_near();
        }
    }

    /// Moves into the wheel what is not behind its horizon any more.
    #[inline]
    fn draw_near(&mut self) {
        while let Some(&event) = self.overflow.peek() {
            let bucket = event.ps() >> self.shift;
            if bucket - self.head >= self.buckets.len() as u64 {
                return;
            }
            self.overflow.pop();
            self.put(bucket, Entry { ps: event.ps(), event: event.event });
        }
    }

    /// Sorts a bucket and moves it behind the batch.
    fn take(&mut self, number: u64) {
        let place = self.slot(number);
        let first = self.batch.len();
        self.empty(place);
        let scratch = &self.scratch[..];
        if scratch.len() < 1 << PLACE_BITS {
            // Time in the bucket, then place in it: integers are sorted fastest, in place, and
            // equal times keep their order.
            let start = number << self.shift;
            let key = |(i, entry): (usize, &Entry<E>)| (entry.ps - start) << PLACE_BITS | i as u64;
            self.keys.extend(scratch.iter().enumerate().map(key));
            self.keys.sort_unstable();
            let mask = (1 << PLACE_BITS) - 1;
            self.batch.extend(self.keys.iter().map(|&key| scratch[(key & mask) as usize]));
            self.keys.clear();
        } else {
            self.batch.extend_from_slice(scratch);
            self.batch[first..].sort_by_key(|entry| entry.ps);
        }
        self.scratch.clear();
        let fresh = &self.batch[first..];
        let times = 1 + fresh.windows(2).filter(|pair| pair[0].ps != pair[1].ps).count();
        self.counts.times += times as u64;
        self.counts.events += fresh.len() as u64;
        self.counts.buckets += 1;
    }

    /// Moves what is in the bucket at `place` to `scratch`, in the order in which it came.
    fn empty(&mut self, place: usize) {
        let bucket = std::mem::replace(&mut self.buckets[place], EMPTY);
        self.filled[place / 64] &= !(1 << (place % 64));
        let mut left = bucket.len as usize;
        self.in_wheel -= left;
        let mut at = bucket.last;
        let begin = self.scratch.len();
        // The last chunk comes first: fill from the end.
        if left > CHUNK {
            let any = self.chunks[at as usize].entries[0];
            self.scratch.resize(begin + left, any);
            while left > 0 {
                let (chunk, n) = (&self.chunks[at as usize], (left - 1) % CHUNK + 1);
                self.scratch[begin + left - n..begin + left].copy_from_slice(&chunk.entries[..n]);
                self.free.push(at);
                (at, left) = (chunk.before, left - n);
            }
        } else if left > 0 {
            self.scratch.extend_from_slice(&self.chunks[at as usize].entries[..left]);
            self.free.push(at);
        }
    }

    /// Chooses width and number of buckets by what has been counted, and moves everything if
    /// they change.
    fn adapt(&mut self) {
        let Counts { buckets, times, put, overflow, .. } = std::mem::take(&mut self.counts);
        let (mut shift, mut n) = (self.shift, self.buckets.len());
        // Equal times cannot be told apart by any width, so that they count once.
        if times > BUCKET_MOST * buckets && shift > 0 {
            shift -= 1;
        } else if times < BUCKET_LEAST * buckets && shift < SHIFT_MAX {
            shift += 1;
        }
        // Most of what is scheduled is to lie within the horizon.
        if overflow * 8 > put {
            if n < BUCKETS_MAX {
                n *= 2;
            } else {
                shift = (self.shift + 1).min(SHIFT_MAX);
            }
        }
        if (shift, n) != (self.shift, self.buckets.len()) {
            self.rebuild(shift, n);
        }
    }

    fn rebuild(&mut self, shift: u32, n: usize) {
        for bucket in self.head..self.head + self.buckets.len() as u64 {
            let place = self.slot(bucket);
            self.empty(place);
        }
        // The batch ends where a bucket begins; what of the wheel comes before that goes into it.
        let end = u128::from(self.head) << self.shift;
        (self.shift, self.head) = (shift, end.div_ceil(1 << shift) as u64);
        self.buckets.resize(n, EMPTY);
        self.filled.resize(n / 64, 0);
        let scratch = std::mem::take(&mut self.scratch);
        for &Entry { ps, event } in &scratch {
            let bucket = ps >> shift;
            if bucket < self.head {
                self.insert(ps, event);
            } else if bucket - self.head < n as u64 {
                self.put(bucket, Entry { ps, event });
            } else {
                self.put_overflow(ps, event);
            }
        }
        while let Some(&event) =
            self.overflow.peek().filter(|event| event.ps() >> shift < self.head)
        {
            self.overflow.pop();
            self.insert(event.ps(), event.event);
        }
        self.scratch = scratch;
        self.scratch.clear();
        self.counts = Counts::default();
        self.draw_near();
    }
}

#[cfg(test)]
mod tests;
