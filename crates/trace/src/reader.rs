//! The file as it stands: windows of records, one pCPU after the other.
//!
//! `xentrace` polls the pCPUs' buffers in turn and writes what it finds as a window: the record
//! `TRC_TRACE_CPU_CHANGE` with the pCPU and the window's size in bytes, then the records. A
//! record never crosses the end of a window, so framing is checked everywhere: a file that is cut
//! or damaged is noticed at the first window whose size does not add up.
//!
//! Memory: one buffer of 64 KiB, whatever the file.

use std::io::{self, Read};

use crate::error::Error;
use crate::record::{CPU_CHANGE_HEADER, EXTRA_WORDS_MAX, Record, Runstate, event};

/// pCPU numbers go up to this; Xen's own limit (`CONFIG_NR_CPUS`) is 16383, machines have fewer.
pub const PCPU_MAX: u32 = 4095;

/// The largest window: the buffer's page count is a 16-bit number (`t_info.tbuf_size`).
pub const WINDOW_BYTES_MAX: u32 = 65_535 * 4096;

/// The buffer starts small, for small inputs, and doubles while reads fill it.
const BUFFER_BYTES_MIN: usize = 4 * 1024;
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Header, time stamp and seven words.
const RECORD_BYTES_MAX: usize = 40;

/// What stands next in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A window begins.
    Window {
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// Whose.
        pcpu: u16,
        /// The bytes of records that follow.
        size: u32,
    },
    /// A record.
    Record(Record),
}

/// Reads a trace item by item.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the file of `buffer[start]`.
    offset: u64,
    window_left: u64,
    window_offset: u64,
    pcpu: u16,
}

impl<R: Read> Reader<R> {
    /// A reader at the start of `input`. Nothing is read yet; `input` need not be buffered.
    pub fn new(input: R) -> Self {
        Reader {
            input,
            buffer: vec![0; BUFFER_BYTES_MIN],
            start: 0,
            end: 0,
            offset: 0,
            window_left: 0,
            window_offset: 0,
            pcpu: 0,
        }
    }

    /// How far in the file the reader has come, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next item, `None` at a well-formed end.
    ///
    /// # Errors
    /// Anything that breaks the framing, see [`Error`]; the reader is of no use afterwards.
    pub fn next_item(&mut self) -> Result<Option<Item>, Error> {
        if self.window_left == 0 { self.window() } else { self.record().map(Some) }
    }

    fn window(&mut self) -> Result<Option<Item>, Error> {
        let offset = self.offset;
        match self.fill(12)? {
            0 if offset == 0 => return Err(Error::Empty),
            0 => return Ok(None),
            got if got < 4 => return Err(self.truncated("the header of a window", offset, 12)),
            _ => {}
        }
        let word = self.word(0);
        if word != CPU_CHANGE_HEADER {
            return Err(if offset != 0 {
                let (pcpu, window_offset) = (self.pcpu, self.window_offset);
                Error::NotAWindow { offset, word, pcpu, window_offset }
            } else if word.swap_bytes() == CPU_CHANGE_HEADER {
                Error::WrongEndian { word }
            } else {
                Error::NotATrace { word }
            });
        }
        if self.end - self.start < 12 {
            return Err(self.truncated("the header of a window", offset, 12));
        }
        let (pcpu, size) = (self.word(4), self.word(8));
        if pcpu > PCPU_MAX {
            return Err(Error::PcpuLimit { offset, pcpu, max: PCPU_MAX });
        }
        if size % 4 != 0 || size > WINDOW_BYTES_MAX {
            return Err(Error::WindowSize { offset, pcpu, size, max: WINDOW_BYTES_MAX });
        }
        self.take(12);
        self.pcpu = pcpu as u16;
        self.window_left = u64::from(size);
        self.window_offset = offset;
        Ok(Some(Item::Window { offset, pcpu: self.pcpu, size }))
    }

    fn record(&mut self) -> Result<Item, Error> {
        let offset = self.offset;
        if self.end - self.start < RECORD_BYTES_MAX {
            // Rarely: at the end of the buffer, and then once more for every record at the very
            // end of the file.
            self.fill(RECORD_BYTES_MAX)?;
        }
        let bytes = &self.buffer[self.start..self.end];
        let Some(&header) = bytes.first_chunk::<4>() else {
            return Err(self.truncated("a window", self.window_offset, 4));
        };
        let word = u32::from_le_bytes(header);
        let word_count = (word >> 28 & 7) as u8;
        let stamp_bytes = if word >> 31 == 1 { 8 } else { 0 };
        let size = 4 + stamp_bytes + 4 * usize::from(word_count);
        if size as u64 > self.window_left {
            let (pcpu, left) = (self.pcpu, self.window_left);
            return Err(Error::RecordSize { offset, word, size: size as u32, pcpu, left });
        }
        let Some(rest) = bytes.get(4..size) else {
            return Err(self.truncated("a record", offset, size));
        };
        let (stamp, extra) = rest.split_at(stamp_bytes);
        let tsc = stamp.first_chunk::<8>().map(|&stamp| u64::from_le_bytes(stamp));
        let mut words = [0; EXTRA_WORDS_MAX];
        for (slot, &bytes) in words.iter_mut().zip(extra.as_chunks::<4>().0) {
            *slot = u32::from_le_bytes(bytes);
        }
        self.take(size);
        self.window_left -= size as u64;
        let event = word & 0x0fff_ffff;
        let record = Record { offset, pcpu: self.pcpu, event, tsc, words, word_count };
        check_shape(&record)?;
        Ok(Item::Record(record))
    }

    /// Has at least `want` bytes in the buffer if the input has them; returns how many are there.
    fn fill(&mut self, want: usize) -> Result<usize, Error> {
        if self.end - self.start >= want {
            return Ok(self.end - self.start);
        }
        if self.end == self.buffer.len() && self.buffer.len() < BUFFER_BYTES_MAX {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < want {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                // A faulty `Read` may claim more than it was given room for.
                Ok(got) => self.end = (self.end + got).min(self.buffer.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.offset + self.end as u64;
                    return Err(Error::Read { offset, source });
                }
            }
        }
        Ok(self.end)
    }

    fn word(&self, at: usize) -> u32 {
        let at = self.start + at;
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.buffer[at..at + 4]);
        u32::from_le_bytes(bytes)
    }

    fn take(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    fn truncated(&self, what: &'static str, begins: u64, want: usize) -> Error {
        let got = (self.end - self.start) as u64;
        let missing = (want as u64 - got).max(self.window_left.saturating_sub(got));
        Error::Truncated { offset: self.offset + got, what, begins, missing }
    }
}

/// The records that the framing and the run states rest on must have their shape; any other event
/// of an unexpected shape is skipped and counted later, for Xen's versions differ in them.
#[inline]
fn check_shape(record: &Record) -> Result<(), Error> {
    if matches!(record.event >> 12, 0x1f | 0x21) { check_fixed_shape(record) } else { Ok(()) }
}

fn check_fixed_shape(record: &Record) -> Result<(), Error> {
    let (name, ok, expected) = if record.event == event::CPU_CHANGE {
        ("TRC_TRACE_CPU_CHANGE", false, "its place between windows, not inside one")
    } else if record.event == event::LOST_RECORDS {
        let ok = record.word_count == 4 && record.tsc.is_some();
        ("TRC_LOST_RECORDS", ok, "4 extra words and a time stamp")
    } else if Runstate::change(record.event).is_some() {
        let ok = record.word_count >= 1 && record.tsc.is_some();
        ("TRC_SCHED_RUNSTATE_CHANGE", ok, "at least 1 extra word and a time stamp")
    } else {
        return Ok(());
    };
    if ok {
        return Ok(());
    }
    let stamp = if record.tsc.is_some() { "a time stamp" } else { "no time stamp" };
    let (offset, words) = (record.offset, record.word_count);
    Err(Error::RecordShape { offset, name, words, stamp, expected })
}
