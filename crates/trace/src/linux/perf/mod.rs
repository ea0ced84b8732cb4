//! `perf.data` of `perf sched record`, or of any `perf record -a` with scheduling tracepoints, as a file or as it
//! comes out of a pipe.
//!
//! Facts: `tools/perf/Documentation/perf.data-file-format.txt` and `include/uapi/linux/perf_event.h` (6.1) for the
//! format, `include/trace/events/sched.h` for the tracepoints. In a file, what the tracepoints' fields are stands
//! behind the data: it is looked up first ([`Layout::look_ahead`]). In a pipe it comes before.

mod attr;
mod head;
mod layout;

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

pub use layout::Layout;

use self::attr::{Attrs, Sample};
use self::head::{HEAD_BYTES, MAGIC, PIPE_HEAD_BYTES};
use self::layout::{Fields, Tracepoint};

use super::bytes::{Bytes, u16_at, u32_at, u64_at, u64_of};
use super::event::{Context, Event, IDLE, Item, Left, What};
use super::thread::Role;
use super::threads::{Threads, text};
use crate::error::Error;
use crate::reader::PCPU_MAX;

/// What stands between head and data: the events' descriptions and numbers.
const FRONT_BYTES_MAX: u64 = 64 << 20;

/// `enum perf_event_type`, and perf's own from 64 on (`tools/lib/perf/include/perf/event.h`).
mod record {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// Whether a file begins as perf's do, in any version and order of bytes.
pub(crate) fn is_perf(head: &[u8]) -> bool {
    [MAGIC, b"2ELIFREP", b"PERFFILE"].iter().any(|magic| head.starts_with(magic))
}

/// A file of perf's, read record by record.
#[derive(Debug)]
pub(crate) struct Perf<R> {
    bytes: Bytes<R>,
    attrs: Attrs,
    layout: Arc<Layout>,
    pub(crate) threads: Threads,
    /// Machines by process.
    vms: HashMap<u32, usize>,
    /// How far the data go; `None`: to the end.
    end: Option<u64>,
    /// Whom each CPU has begun to wake last, and in which context, in files that have `sched_waking` beside `sched_wakeup`.
    waking: HashMap<u32, (u32, Context)>,
    /// Samples that say nothing of the schedule.
    others: u64,
    record: Vec<u8>,
}

impl<R: Read> Perf<R> {
    /// Reads a file's head.
    pub(crate) fn open(mut bytes: Bytes<R>, layout: Option<Arc<Layout>>) -> Result<Self, Error> {
        let mut head = [0; HEAD_BYTES];
        bytes.exact(&mut head[..16], "the head of the file", 0)?;
        let malformed = |offset, what: &str| Error::Malformed { offset, what: what.to_owned() };
        if !head.starts_with(MAGIC) {
            let what = "a perf.data of another order of bytes, or of a perf before 3.3; record and \
                        read on machines of one kind";
            return Err(malformed(0, what));
        }
        let (mut attrs, mut end) = (Attrs::default(), None);
        if u64_at(&head, 8) == PIPE_HEAD_BYTES {
            // Attributes and layout come in records.
        } else {
            bytes.exact(&mut head[16..], "the head of the file", 0)?;
            let (entry, at, size) = (u64_at(&head, 16), u64_at(&head, 24), u64_at(&head, 32));
            let (data, length) = (u64_at(&head, 40), u64_at(&head, 48));
            let front = data.checked_sub(HEAD_BYTES as u64).filter(|&size| size <= FRONT_BYTES_MAX);
            let Some(front) = front else {
                return Err(malformed(40, "the data begin within the head, or too far behind it"));
            };
            let mut middle = head.to_vec();
            middle.resize(HEAD_BYTES + front as usize, 0);
            bytes.exact(&mut middle[HEAD_BYTES..], "what stands before the data", 0)?;
            let right = entry > 64 && size % entry == 0 && at.saturating_add(size) <= data;
            if !right {
                return Err(malformed(16, "the events' descriptions are not before the data"));
            }
            for place in (at..at + size).step_by(entry as usize) {
                let attr = &middle[place as usize..(place + entry) as usize];
                let ids = attr.len() - 16;
                let (from, bytes) = (u64_at(attr, ids) as usize, u64_at(attr, ids + 8) as usize);
                let ids = middle.get(from..from.saturating_add(bytes)).unwrap_or_default();
                attrs.add(attr, ids);
            }
            end = Some(data.saturating_add(length));
            if layout.is_none() {
                let what = "what the events' fields are stands at the end of this file, so that it \
                            has to be a file that can be read twice; through a pipe, give what \
                            `perf record -o -` writes";
                return Err(malformed(0, what));
            }
        }
        Ok(Perf {
            bytes,
            attrs,
            layout: layout.unwrap_or_default(),
            threads: Threads::default(),
            vms: HashMap::new(),
            waking: HashMap::new(),
            end,
            others: 0,
            record: Vec::new(),
        })
    }

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// Samples that say nothing of the schedule.
    pub(crate) fn unknown(&self) -> u64 {
        self.others
    }

    /// The next item; `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<Item>, Error> {
        loop {
            let offset = self.bytes.offset();
            if self.end.is_some_and(|end| offset >= end) {
                return Ok(None);
            }
            let mut head = [0; 8];
            if !self.bytes.some(&mut head, "the head of a record", offset)? {
                if let Some(end) = self.end {
                    let (what, begins, missing) = ("the data", 0, end - offset);
                    return Err(Error::Truncated { offset, what, begins, missing });
                }
                return Ok(None);
            }
            let (kind, size) = (u32_at(&head, 0), usize::from(u16_at(&head, 6)));
            if size < head.len() {
                let what = format!(
                    "a record of {size} bytes, its own head has {}; the file is damaged, or perf was \
                     killed while it wrote it",
                    head.len()
                );
                return Err(Error::Malformed { offset, what });
            }
            let mut record = std::mem::take(&mut self.record);
            record.resize(size - head.len(), 0);
            self.bytes.exact(&mut record, "a record", offset)?;
            let item = self.record(kind, &record, offset);
            self.record = record;
            if let Some(item) = item? {
                return Ok(Some(item));
            }
        }
    }

    fn record(&mut self, kind: u32, record: &[u8], offset: u64) -> Result<Option<Item>, Error> {
        match kind {
            record::SAMPLE => return self.sample(record, offset),
            record::FINISHED_ROUND => return Ok(Some(Item::Round(None))),
            record::LOST => {
                let (lost, cpu) = (u64_at(record, 8), self.attrs.cpu_at_end(record));
                return Ok(Some(Item::Piece { cpu, lost, offset }));
            }
            record::LOST_SAMPLES => {
                let (lost, cpu) = (u64_at(record, 0), self.attrs.cpu_at_end(record));
                return Ok(Some(Item::Piece { cpu, lost, offset }));
            }
            record::COMM => {
                let (pid, tid) = (u32_at(record, 0), u32_at(record, 4));
                let mut comm = [0; 16];
                let given = record.get(8..).unwrap_or_default();
                let length = given.len().min(comm.len());
                comm[..length].copy_from_slice(&given[..length]);
                self.named(tid, pid, comm);
            }
            record::FORK => {
                // Of the new thread: process, and behind the parent's its own number.
                let (pid, tid, parent) = (u32_at(record, 0), u32_at(record, 8), u32_at(record, 12));
                let comm = self.threads.comm(parent);
                self.named(tid, pid, comm);
            }
            record::HEADER_ATTR => {
                let size = (u32_at(record, 4) as usize).min(record.len());
                self.attrs.add(&record[..size], &record[size..]);
            }
            record::TRACING_DATA => {
                let size = u64::from(u32_at(record, 0));
                if size > layout::TRACING_BYTES_MAX {
                    let what = format!("{size} bytes of tracepoints' descriptions: damaged");
                    return Err(Error::Malformed { offset, what });
                }
                let mut data = vec![0; size as usize];
                self.bytes.exact(&mut data, "the tracepoints' descriptions", offset)?;
                self.layout = Arc::new(Layout::of(&data));
            }
            record::AUXTRACE => {
                self.bytes.skip(u64_at(record, 0), "a processor's trace", offset)?;
            }
            record::COMPRESSED | record::COMPRESSED2 => {
                let what = "the data are compressed; record without -z, or uncompress them with \
                            `perf inject -i perf.data -o plain.data`";
                return Err(Error::Malformed { offset, what: what.to_owned() });
            }
            _ => {}
        }
        Ok(None)
    }

    fn sample(&mut self, record: &[u8], offset: u64) -> Result<Option<Item>, Error> {
        let Some(Sample { at_ns, cpu, raw }) = self.attrs.sample(record) else {
            let what = "a sample without time, CPU or the tracepoint's own data: record with -a \
                        and the events sched:sched_switch and sched:sched_wakeup";
            return Err(Error::Malformed { offset, what: what.to_owned() });
        };
        if cpu > PCPU_MAX {
            return Err(Error::PcpuLimit { offset, pcpu: cpu, max: PCPU_MAX });
        }
        let layout = Arc::clone(&self.layout);
        let Some((tracepoint, fields)) = layout.of_id(u16_at(raw, 0)) else {
            self.others += 1;
            return Ok(None);
        };
        let tid = |at: &Fields| u64_of(raw, at.offset, at.size.min(4)) as u32;
        let (what, word) = match tracepoint {
            Tracepoint::Switch => {
                let [prev_comm, prev, state, next_comm, next] = fields;
                let state = u64_of(raw, state.offset, state.size);
                let (prev, next) = (tid(prev), tid(next));
                self.called(prev, prev_comm, raw);
                self.called(next, next_comm, raw);
                let (left, word) = left(state);
                (What::Switch { prev, left, next }, word)
            }
            Tracepoint::Waking | Tracepoint::Wakeup | Tracepoint::WakeupNew => {
                let [comm, woken, on, by, flags] = fields;
                let on = u16::try_from(u64_of(raw, on.offset, on.size)).ok();
                let (woken, by) = (tid(woken), tid(by));
                let told = context(u64_of(raw, flags.offset, flags.size), flags.size > 0, by);
                let has = |tracepoint| layout.has(tracepoint, self.attrs.configs());
                let mut context = told;
                if tracepoint == Tracepoint::Waking && has(Tracepoint::Wakeup) {
                    self.waking.insert(cpu, (woken, told));
                    self.others += 1;
                    return Ok(None);
                } else if tracepoint == Tracepoint::Wakeup && has(Tracepoint::Waking) {
                    // What its own CPU has not begun to wake was handed over by another one, whose events are elsewhere in
                    // the file.
                    let begun = self.waking.remove(&cpu).filter(|&(tid, _)| tid == woken);
                    context = begun.map_or(Context::Unknown, |(_, told)| told);
                }
                self.called(woken, comm, raw);
                let word = match tracepoint {
                    Tracepoint::WakeupNew => "wake: new",
                    _ => context.word(),
                };
                (What::Wake { tid: woken, on, by, context, here: true }, word)
            }
        };
        let event = Event { at_ns, offset, cpu: cpu as u16, late: false, what };
        Ok(Some(Item::Event(event, word)))
    }

    /// What a sample says of a thread's name.
    fn called(&mut self, tid: u32, comm: &Fields, raw: &[u8]) {
        let given = raw.get(comm.offset..).unwrap_or_default();
        if let Some(comm) = given.first_chunk::<16>()
            && tid != 0
            && !self.threads.has_name(tid, comm)
        {
            self.named(tid, 0, *comm);
        }
    }

    /// A thread has a name, and with some names it runs a vCPU.
    fn named(&mut self, tid: u32, tgid: u32, comm: [u8; 16]) {
        self.threads.name(tid, tgid, comm);
        let thread = self.threads.thread(tid);
        let (Some(tgid), Some(vcpu)) = (thread.tgid, vcpu(&text(&comm))) else { return };
        let known = self.vms.get(&tgid).copied();
        let vm = known.unwrap_or_else(|| {
            let name = self.threads.label(tgid).name;
            let number = self.vms.len();
            self.threads.vm(name);
            self.vms.insert(tgid, number);
            number
        });
        self.threads.member(tid, vm, Role::Vcpu(vcpu));
    }
}

/// Which vCPU a thread of this name runs: QEMU's `CPU 0/KVM`, Firecracker's `fc_vcpu 0`, Cloud Hypervisor's `vcpu0`.
fn vcpu(comm: &str) -> Option<u16> {
    let number = comm
        .strip_prefix("CPU ")
        .and_then(|rest| rest.strip_suffix("/KVM").or_else(|| rest.strip_suffix("/TCG")))
        .or_else(|| comm.strip_prefix("fc_vcpu "))
        .or_else(|| comm.strip_prefix("vcpu"))?;
    number.trim_start().parse().ok()
}

/// In which context, from a sample's flags (`TRACE_FLAG_…`, `include/linux/trace_events.h`). The idle thread wakes nobody by
/// itself: it does what another CPU has handed over.
fn context(flags: u64, known: bool, by: u32) -> Context {
    const HARD_INTERRUPT_OR_NMI: u64 = 0x48;
    const SOFT_INTERRUPT: u64 = 0x10;
    match flags {
        _ if !known => Context::Unknown,
        flags if flags & HARD_INTERRUPT_OR_NMI != 0 => Context::HardInterrupt,
        flags if flags & SOFT_INTERRUPT != 0 => Context::SoftInterrupt,
        _ if by == IDLE => Context::Unknown,
        _ => Context::Thread,
    }
}

/// Why a thread has left its CPU, from what `sched_switch` tells: since 4.14 (`TASK_REPORT`,
/// `include/linux/sched.h`) a bit for a reason, one above all of them if it was preempted in the kernel.
fn left(state: u64) -> (Left, &'static str) {
    match state & 0xff {
        0 if state & 0x100 != 0 => (Left::Runnable, "switch: preempted in the kernel"),
        0 => (Left::Runnable, "switch: runnable"),
        state if state & 0x30 != 0 => (Left::Dead, "switch: ended"),
        state if state & 0x0c != 0 => (Left::Blocked, "switch: stopped"),
        state if state & 0x01 != 0 => (Left::Blocked, "switch: sleeping"),
        state if state & 0x02 != 0 => (Left::Blocked, "switch: uninterruptible"),
        _ => (Left::Blocked, "switch: otherwise waiting"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags as ftrace prints them, in its `latency-format`: `d` 0x01, `N` 0x04, `h` 0x08, `s` 0x10, `H` both, `z` 0x40.
    #[test]
    fn contexts_of_samples() {
        for (flags, by, wanted) in [
            (0x01, 5, Context::Thread),
            (0x05, 5, Context::Thread),
            (0x09, 5, Context::HardInterrupt),
            (0x19, 5, Context::HardInterrupt),
            (0x41, 5, Context::HardInterrupt),
            (0x11, 0, Context::SoftInterrupt),
            (0x09, 0, Context::HardInterrupt),
            (0x01, 0, Context::Unknown),
        ] {
            assert_eq!(context(flags, true, by), wanted, "{flags:#x}");
        }
        assert_eq!(context(0x09, false, 5), Context::Unknown);
    }
}
