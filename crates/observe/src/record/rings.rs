//! The kernel's rings of events, read from outside while it writes them.
//!
//! A reader copies pages and looks afterwards how far the writer has come: what it could have overwritten meanwhile
//! is thrown away and counted. Each event carries the last bits of how often its ring has gone round, so
//! that one of another round is noticed too.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use lowtail_kernel::{Error, pace};

/// Bytes of an event.
pub(super) const EVENT_BYTES: usize = 16;
/// Events of a page, as `PAGE_EVENTS` of `bpf/record.bpf.c` has it.
const PAGE_EVENTS: u64 = 256;
/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = PAGE_EVENTS as usize * EVENT_BYTES;
/// So many events are copied between two looks at the writer.
const COPY_EVENTS: u64 = 64 * PAGE_EVENTS;
/// Bits of an event's third word that count the ring's rounds.
const LAP_SHIFT: u32 = 28;

/// The rings of all CPUs.
#[derive(Debug)]
pub(super) struct Rings {
    pages: MapHandle,
    rings: MapHandle,
    page_shift: u32,
    page: Vec<u8>,
}

/// What was copied of one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    /// The number of the event after the last one.
    pub(super) next: u64,
    /// Events that were overwritten before they could be copied.
    pub(super) lost: u64,
}

impl Rings {
    pub(super) fn new(pages: MapHandle, rings: MapHandle, page_shift: u32) -> Self {
        Rings { pages, rings, page_shift, page: vec![0; PAGE_BYTES] }
    }

    /// How many events a ring holds.
    pub(super) fn capacity(&self) -> u64 {
        PAGE_EVENTS << self.page_shift
    }

    /// How many events have been written into each CPU's ring since the beginning.
    pub(super) fn written(&self) -> Result<Vec<u64>, Error> {
        let found = self.rings.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(|source| Error::Bpf { what: "read the rings", source })?;
        let number =
            |ring: Vec<u8>| ring.first_chunk().map_or(0, |&first| u64::from_ne_bytes(first));
        Ok(found.unwrap_or_default().into_iter().map(number).collect())
    }

    /// Copies `cpu`'s events from number `from` up to `to`, but only some at a time, behind what is in `into`, as a
    /// recording has them.
    pub(super) fn copy(
        &mut self,
        cpu: usize,
        from: u64,
        to: u64,
        into: &mut Vec<u8>,
    ) -> Result<Copied, Error> {
        let oldest = to.saturating_sub(self.capacity());
        let start = from.max(oldest);
        // To the end of a page, so that no page is copied twice.
        let next = to.min((start + COPY_EVENTS) / PAGE_EVENTS * PAGE_EVENTS);
        let began = into.len();
        let mut index = start;
        while index < next {
            self.load(cpu, index)?;
            let (first, end) = (index % PAGE_EVENTS, (next - index / PAGE_EVENTS * PAGE_EVENTS));
            let end = end.min(PAGE_EVENTS);
            into.extend(&self.page[first as usize * EVENT_BYTES..end as usize * EVENT_BYTES]);
            index += end - first;
        }
        // The writer may be in the middle of the event after those that count.
        let written = self.written()?.get(cpu).copied().unwrap_or(to);
        let safe = (written + 1).saturating_sub(self.capacity()).clamp(start, next);
        into.drain(began..began + (safe - start) as usize * EVENT_BYTES);
        let (events, _) = into[began..].as_chunks_mut::<EVENT_BYTES>();
        let mut kept = 0;
        for at in 0..events.len() {
            let mut event = events[at];
            if self.settle(&mut event, safe + at as u64) {
                events[kept] = event;
                kept += 1;
            }
        }
        let lost = safe - from + (events.len() - kept) as u64;
        into.truncate(began + kept * EVENT_BYTES);
        Ok(Copied { next, lost })
    }

    /// When event number `index` of `cpu` was, if it is still there.
    pub(super) fn at_ns(&mut self, cpu: usize, index: u64) -> Result<u64, Error> {
        self.load(cpu, index)?;
        let at = (index % PAGE_EVENTS) as usize * EVENT_BYTES;
        Ok(at_ns(&self.page[at..]))
    }

    /// Takes the round out of an event, and says whether it is the right one.
    fn settle(&self, event: &mut [u8; EVENT_BYTES], index: u64) -> bool {
        let lap = (index / PAGE_EVENTS) >> self.page_shift;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| event[at + i]));
        let (first, second) = (word(8), word(12));
        let at_ns = at_ns(event).to_le_bytes();
        event[..8].copy_from_slice(&at_ns);
        event[8..12].copy_from_slice(&(first & ((1 << LAP_SHIFT) - 1)).to_le_bytes());
        event[12..].copy_from_slice(&second.to_le_bytes());
        u64::from(first >> LAP_SHIFT) == lap & 0xf
    }

    fn load(&mut self, cpu: usize, index: u64) -> Result<(), Error> {
        pace::point();
        let page = (index / PAGE_EVENTS) & ((1 << self.page_shift) - 1);
        let key = (cpu as u32) << self.page_shift | page as u32;
        let found = self.pages.lookup_into(&key.to_ne_bytes(), &mut self.page, MapFlags::ANY);
        found.map_err(|source| Error::Bpf { what: "read a ring", source })?;
        Ok(())
    }
}

/// An event's time.
pub(super) fn at_ns(event: &[u8]) -> u64 {
    event.first_chunk().map_or(0, |&bytes| u64::from_ne_bytes(bytes))
}
