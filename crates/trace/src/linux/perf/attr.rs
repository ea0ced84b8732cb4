//! What perf was told to record, and so what is in a sample.

use std::collections::HashMap;

use crate::linux::bytes::{u32_at, u64_at};

/// `enum perf_event_sample_format`.
mod has {
    pub(super) const IP: u64 = 1;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

/// `PERF_FORMAT_GROUP`, and the bits of what stands with each value.
const READ_GROUP: u64 = 1 << 3;
/// Bit of `sample_id_all` among the flags of `struct perf_event_attr`.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// An event has so many numbers: one for each CPU.
const IDS_MAX: usize = 1 << 20;
/// Events of one recording.
const ATTRS_MAX: usize = 4096;

/// One event.
#[derive(Clone, Copy, Debug)]
struct Attr {
    config: u64,
    sample_type: u64,
    read_format: u64,
    sample_id_all: bool,
}

/// All events.
#[derive(Debug, Default)]
pub(super) struct Attrs {
    attrs: Vec<Attr>,
    /// Event by number.
    ids: HashMap<u64, usize>,
}

/// What a sample says.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) at_ns: u64,
    pub(super) cpu: u32,
    pub(super) raw: &'a [u8],
}

impl Attrs {
    /// Another event: `struct perf_event_attr`, and its numbers.
    pub(super) fn add(&mut self, attr: &[u8], ids: &[u8]) {
        if self.attrs.len() >= ATTRS_MAX {
            return;
        }
        self.attrs.push(Attr {
            config: u64_at(attr, 8),
            sample_type: u64_at(attr, 24),
            read_format: u64_at(attr, 32),
            sample_id_all: u64_at(attr, 40) & SAMPLE_ID_ALL != 0,
        });
        let room = IDS_MAX.saturating_sub(self.ids.len());
        let number = self.attrs.len() - 1;
        let ids = ids.as_chunks::<8>().0.iter().take(room);
        self.ids.extend(ids.map(|&id| (u64::from_le_bytes(id), number)));
    }

    /// What the events are: for tracepoints their numbers.
    pub(super) fn configs(&self) -> impl Iterator<Item = u64> {
        self.attrs.iter().map(|attr| attr.config)
    }

    /// Which event a sample is of.
    fn of(&self, record: &[u8]) -> Option<&Attr> {
        let first = self.attrs.first()?;
        let before = |of: u64| u64::from((first.sample_type & of).count_ones()) * 8;
        // All events of a recording have their number in the same place.
        let at = if first.sample_type & has::IDENTIFIER != 0 {
            0
        } else if first.sample_type & has::ID != 0 {
            before(has::IP | has::TID | has::TIME | has::ADDR)
        } else {
            return Some(first);
        };
        let number = self.ids.get(&u64_at(record, at as usize));
        Some(number.and_then(|&number| self.attrs.get(number)).unwrap_or(first))
    }

    /// Time, CPU and data of a sample, in the order of `PERF_RECORD_SAMPLE` in `perf_event.h`.
    pub(super) fn sample<'a>(&self, record: &'a [u8]) -> Option<Sample<'a>> {
        let attr = self.of(record)?;
        let with = |bit| attr.sample_type & bit != 0;
        let mut at = 0;
        let mut take = |wanted: bool| {
            let here = at;
            at += if wanted { 8 } else { 0 };
            wanted.then_some(here)
        };
        take(with(has::IDENTIFIER));
        take(with(has::IP));
        take(with(has::TID));
        let time = take(with(has::TIME))?;
        take(with(has::ADDR));
        take(with(has::ID));
        take(with(has::STREAM_ID));
        let cpu = take(with(has::CPU))?;
        take(with(has::PERIOD));
        if with(has::READ) {
            let values = (attr.read_format & 0b1_0100).count_ones() as usize;
            let times = (attr.read_format & 0b11).count_ones() as usize;
            let (count, extra) = if attr.read_format & READ_GROUP != 0 {
                (u64_at(record, at) as usize, 1)
            } else {
                (1, 0)
            };
            let words = count.checked_mul(1 + values)?.checked_add(times + extra)?;
            at = at.checked_add(words.checked_mul(8)?)?;
        }
        if with(has::CALLCHAIN) {
            let words = (u64_at(record, at) as usize).checked_add(1)?;
            at = at.checked_add(words.checked_mul(8)?)?;
        }
        let size = with(has::RAW).then(|| u32_at(record, at) as usize)?;
        let from = at.checked_add(4)?;
        let raw = record.get(from..from.checked_add(size)?)?;
        Some(Sample { at_ns: u64_at(record, time), cpu: u32_at(record, cpu), raw })
    }

    /// The CPU at the end of a record that is no sample, 0 if it is not there.
    pub(super) fn cpu_at_end(&self, record: &[u8]) -> u16 {
        let Some(attr) = self.attrs.first().filter(|attr| attr.sample_id_all) else { return 0 };
        if attr.sample_type & has::CPU == 0 {
            return 0;
        }
        let behind = if attr.sample_type & has::IDENTIFIER != 0 { 8 } else { 0 };
        let at = record.len().checked_sub(8 + behind);
        at.map_or(0, |at| u32_at(record, at).min(crate::reader::PCPU_MAX) as u16)
    }
}
