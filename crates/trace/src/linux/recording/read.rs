//! Reads the format.

use std::io::Read;

use super::facts::{Facts, GROUP_BYTES, SCHED_BYTES};
use super::queues::Queues;
use super::{About, BLOCK_BYTES_MAX, EVENT_BYTES, EVENTS_BYTES_MAX, End, TID_MASK, VERSION, kind};
use crate::cores::CpuPlace;
use crate::error::Error;
use crate::linux::Trigger;
use crate::linux::bytes::{Bytes, u16_at, u32_at, u64_at};
use crate::linux::event::{Context, Event, Item, Left, What};
use crate::linux::thread::Role;
use crate::linux::threads::Threads;
use crate::reader::PCPU_MAX;

/// In place of a CPU's number that ten bits do not hold.
const NOT_TOLD: u16 = 0x3ff;
/// Bit of a wake-up: the waker ran on another CPU than the event's.
const ELSEWHERE: u32 = 1 << 26;
/// So many waits for whose sake a recording was kept are remembered.
const TRIGGERS_MAX: usize = 1024;

/// A recording, read block by block.
#[derive(Debug)]
pub(crate) struct Recording<R> {
    bytes: Bytes<R>,
    pub(crate) about: About,
    pub(crate) threads: Threads,
    /// The word for the software that runs each VM.
    pub(crate) runs: Vec<String>,
    pub(crate) triggers: Vec<Trigger>,
    /// Where the CPUs are, if the file says.
    pub(crate) places: Vec<CpuPlace>,
    pub(crate) end: Option<End>,
    /// Who filled the uplinks, over all of it, and interval by interval as far as there is room.
    pub(crate) queues: Queues,
    /// How the host schedules, as far as it has been read.
    pub(crate) facts: Facts,
    /// Blocks of kinds that are not known.
    pub(crate) unknown: u64,
    /// Whose events are being read, how many bytes are left of them, and where they began.
    cpu: u16,
    left: u32,
    began: u64,
    events: u64,
    lost: u64,
}

impl<R: Read> Recording<R> {
    /// Reads a file's head.
    pub(crate) fn open(mut bytes: Bytes<R>) -> Result<Self, Error> {
        let mut head = [0; 8];
        bytes.exact(&mut head, "the head of the file", 0)?;
        let version = u16_at(&head, 4);
        if version != VERSION {
            let what = format!(
                "a recording of version {version}; this lowtail reads version {VERSION}, a newer \
                 one may read this"
            );
            return Err(Error::Malformed { offset: 4, what });
        }
        let mut file = Recording {
            bytes,
            about: About::default(),
            threads: Threads::default(),
            runs: Vec::new(),
            triggers: Vec::new(),
            places: Vec::new(),
            end: None,
            queues: Queues::default(),
            facts: Facts::default(),
            unknown: 0,
            cpu: 0,
            left: 0,
            began: 0,
            events: 0,
            lost: 0,
        };
        let (kind, payload, offset) = file.block()?.ok_or_else(|| file.cut(8))?;
        let kernel = payload.get(24..24 + u32_at(&payload, 20) as usize);
        let (kind::ABOUT, Some(kernel)) = (kind, kernel) else {
            let what = "the first block is not the one about the recording (kind 1), or is too \
                        short; the file is damaged";
            return Err(Error::Malformed { offset, what: what.to_owned() });
        };
        file.about = About {
            begin_ns: u64_at(&payload, 0),
            begin_unix_ns: u64_at(&payload, 8),
            cpus: u32_at(&payload, 16),
            kernel: String::from_utf8_lossy(kernel).into_owned(),
        };
        Ok(file)
    }

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// The next item; `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<Item>, Error> {
        if self.left > 0 {
            return self.event().map(Some);
        }
        loop {
            let Some((kind, payload, offset)) = self.block()? else {
                return if self.end.is_some() { Ok(None) } else { Err(self.cut(40)) };
            };
            if self.end.is_some() {
                let what = "something follows the last block (kind 8); the file is damaged";
                return Err(Error::Malformed { offset, what: what.to_owned() });
            }
            match kind {
                kind::EVENTS => {
                    let lost = u64_at(&payload, 8);
                    self.lost = self.lost.saturating_add(lost);
                    return Ok(Some(Item::Piece { cpu: self.cpu, lost, offset }));
                }
                kind::ROUND => return Ok(Some(Item::Round(Some(u64_at(&payload, 0))))),
                _ => self.fact(kind, &payload, offset)?,
            }
        }
    }

    /// A block without events.
    fn fact(&mut self, kind: u32, payload: &[u8], offset: u64) -> Result<(), Error> {
        match kind {
            kind::THREADS => {
                for entry in payload.as_chunks::<24>().0 {
                    let mut comm = [0; 16];
                    comm.copy_from_slice(&entry[8..]);
                    self.threads.name(u32_at(entry, 0) & TID_MASK, u32_at(entry, 4), comm);
                }
            }
            kind::VM => {
                let name = 8..8 + u32_at(payload, 0) as usize;
                let runs = name.end..name.end + u32_at(payload, 4) as usize;
                let (Some(name), Some(runs)) = (payload.get(name), payload.get(runs)) else {
                    let what =
                        "the name of a machine is longer than its block; the file is damaged";
                    return Err(Error::Malformed { offset, what: what.to_owned() });
                };
                self.runs.push(String::from_utf8_lossy(runs).into_owned());
                if !self.threads.vm(String::from_utf8_lossy(name).into_owned()) {
                    let what = "too many machines; the file is damaged".to_owned();
                    return Err(Error::Malformed { offset, what });
                }
            }
            kind::MEMBERS => {
                for entry in payload.as_chunks::<16>().0 {
                    let (tid, vm) = (u32_at(entry, 0) & TID_MASK, u32_at(entry, 4));
                    let role = Role::of(u16_at(entry, 8), u16_at(entry, 10));
                    // A role that a later version knows is still a thread of that machine.
                    let role = role.unwrap_or(Role::Worker);
                    if !self.threads.member(tid, vm as usize, role) {
                        let what = format!("thread {tid} is of VM {vm}, which is not named");
                        return Err(Error::Malformed { offset, what });
                    }
                }
            }
            kind::PLACES => {
                let numbers = |entry: &[u8; 8]| [0, 2, 4, 6].map(|at| u16_at(entry, at));
                let places = payload.as_chunks::<8>().0.iter().map(numbers);
                // A later block says it anew. No CPU has a higher number than that of one with events.
                self.places = places
                    .filter(|place| u32::from(place[0]) <= PCPU_MAX)
                    .map(|[cpu, core, cache, node]| CpuPlace { cpu, core, cache, node })
                    .take(PCPU_MAX as usize + 1)
                    .collect();
            }
            kind::TRIGGER => {
                let trigger = Trigger {
                    at_ns: u64_at(payload, 0),
                    delay_ns: u64_at(payload, 8),
                    tid: u32_at(payload, 16) & TID_MASK,
                    cpu: u32_at(payload, 20),
                };
                if self.triggers.len() < TRIGGERS_MAX {
                    self.triggers.push(trigger);
                    self.triggers.sort_by_key(|trigger| trigger.at_ns);
                }
            }
            kind::SENDER => {
                self.queues.name(payload).map_err(|what| Error::Malformed { offset, what })?;
            }
            kind::QUEUES => {
                self.queues.interval(payload).map_err(|what| Error::Malformed { offset, what })?;
            }
            kind::SCHED | kind::GROUP | kind::CPUS | kind::ATTRIBUTES => {
                let read = self.facts.read(kind, payload);
                read.map_err(|what| Error::Malformed { offset, what })?;
            }
            kind::END => {
                let end = End {
                    end_ns: u64_at(payload, 0),
                    events: u64_at(payload, 8),
                    lost: u64_at(payload, 16),
                    lost_names: u64_at(payload, 24),
                };
                if (end.events, end.lost) != (self.events, self.lost) {
                    let (events, lost) = (self.events, self.lost);
                    let what = format!(
                        "the file says that it has {} events and {} were lost, and has {events} \
                         and {lost}; it is damaged",
                        end.events, end.lost
                    );
                    return Err(Error::Malformed { offset, what });
                }
                self.end = Some(end);
            }
            _ => self.unknown += 1,
        }
        Ok(())
    }

    /// The head of the next block, and what is in it, but for events only what stands before them; and where it begins.
    fn block(&mut self) -> Result<Option<(u32, Vec<u8>, u64)>, Error> {
        let offset = self.bytes.offset();
        let mut head = [0; 8];
        if !self.bytes.some(&mut head, "the head of a block", offset)? {
            return Ok(None);
        }
        let (kind, size) = (u32_at(&head, 0), u32_at(&head, 4));
        let max = if kind == kind::EVENTS { EVENTS_BYTES_MAX } else { BLOCK_BYTES_MAX };
        let least = match kind {
            kind::ABOUT | kind::TRIGGER => 24,
            kind::EVENTS => 16,
            kind::END => 32,
            kind::VM | kind::ROUND | kind::SENDER => 8,
            kind::QUEUES => 16,
            kind::SCHED => SCHED_BYTES,
            kind::GROUP => GROUP_BYTES,
            kind::CPUS => 8,
            _ => 0,
        };
        if size % 8 != 0 || size > max || size < least {
            let what = format!(
                "a block of kind {kind} and {size} bytes; one of that kind has {least} to {max} \
                 bytes, a multiple of 8: the file is damaged"
            );
            return Err(Error::Malformed { offset, what });
        }
        let now = if kind == kind::EVENTS { 16 } else { size };
        let mut payload = vec![0; now as usize];
        self.bytes.exact(&mut payload, "a block", offset)?;
        if kind == kind::EVENTS {
            let (cpu, left) = (u32_at(&payload, 0), size - now);
            if cpu > PCPU_MAX {
                return Err(Error::PcpuLimit { offset, pcpu: cpu, max: PCPU_MAX });
            }
            if !(left as usize).is_multiple_of(EVENT_BYTES) {
                let what = format!("{left} bytes of events; an event has {EVENT_BYTES}");
                return Err(Error::Malformed { offset, what });
            }
            (self.cpu, self.left, self.began) = (cpu as u16, left, offset);
        }
        Ok(Some((kind, payload, offset)))
    }

    fn event(&mut self) -> Result<Item, Error> {
        let offset = self.bytes.offset();
        let mut bytes = [0; EVENT_BYTES];
        self.bytes.exact(&mut bytes, "a block of events", self.began)?;
        self.left -= EVENT_BYTES as u32;
        self.events += 1;
        let (at_ns, first, second) = (u64_at(&bytes, 0), u32_at(&bytes, 8), u32_at(&bytes, 12));
        let (tid, other) = (first & TID_MASK, second & TID_MASK);
        let on = Some((second >> 22) as u16).filter(|&on| on != NOT_TOLD);
        let (what, word) = match first >> 22 & 0b11 {
            0 => {
                let (left, word) = match first >> 24 & 0xf {
                    0 => (Left::Runnable, "switch: runnable"),
                    1 => (Left::Blocked, "switch: sleeping"),
                    2 => (Left::Blocked, "switch: uninterruptible"),
                    3 => (Left::Blocked, "switch: stopped"),
                    4 => (Left::Dead, "switch: ended"),
                    6 => (Left::Runnable, "switch: preempted in the kernel"),
                    _ => (Left::Blocked, "switch: otherwise waiting"),
                };
                (What::Switch { prev: tid, left, next: other }, word)
            }
            kind @ (1 | 2) => {
                let context = match first >> 24 & 0b11 {
                    1 => Context::Thread,
                    2 => Context::HardInterrupt,
                    3 => Context::SoftInterrupt,
                    _ => Context::Unknown,
                };
                let here = first & ELSEWHERE == 0;
                let word = if kind == 1 { context.word() } else { "wake: new" };
                (What::Wake { tid, on, by: other, context, here }, word)
            }
            _ => {
                let what = format!(
                    "an event of kind 3 (its second word is {first:#010x}); events are of kinds 0 to 2"
                );
                return Err(Error::Malformed { offset, what });
            }
        };
        let event = Event { at_ns, offset, cpu: self.cpu, late: false, what };
        Ok(Item::Event(event, word))
    }

    /// The file ends too early.
    fn cut(&self, missing: u64) -> Error {
        let offset = self.bytes.offset();
        Error::Truncated { offset, what: "a recording without its last block", begins: 0, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;

    /// As docs/reference/record.md has it: two bits for the context, one for a waker of another CPU.
    #[test]
    fn how_a_thread_was_woken() {
        let mut out = Writer::new(Vec::new(), &About::default()).unwrap();
        let contexts =
            [Context::Unknown, Context::Thread, Context::HardInterrupt, Context::SoftInterrupt];
        for how in 0..8_u32 {
            let words = [0, 0, 7 | 1 << 22 | how << 24, 9 | 3 << 22];
            out.events(0, 0, &words.map(u32::to_le_bytes).concat()).unwrap();
        }
        let bytes = out.finish(1, 0).unwrap().0;
        let mut file = Recording::open(Bytes::new(&bytes[..])).unwrap();
        let mut found = Vec::new();
        while let Some(item) = file.next_item().unwrap() {
            if let Item::Event(event, _) = item {
                found.push(event.what);
            }
        }
        let wanted = (0..8).map(|how| What::Wake {
            tid: 7,
            on: Some(3),
            by: 9,
            context: contexts[how & 3],
            here: how < 4,
        });
        assert_eq!(found, wanted.collect::<Vec<_>>());
    }
}
