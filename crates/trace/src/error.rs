//! What can be wrong with an input, each with the byte offset and what would be right.

use std::io;

/// Why a trace could not be read, or an export not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input has no bytes.
    #[error("offset 0: the file is empty; a trace starts with the record TRC_TRACE_CPU_CHANGE")]
    Empty,
    /// The first word is the right one with its bytes reversed.
    #[error(
        "offset 0: the first word is {word:#010x}, which is 0x2001f003 with its bytes reversed: \
         the trace was recorded on a big-endian machine or its bytes were swapped on the way; \
         only little-endian traces are read"
    )]
    WrongEndian {
        /// The word as read, little-endian.
        word: u32,
    },
    /// The first word is not that of a trace.
    #[error(
        "offset 0: not a xentrace file: the first word is {word:#010x}, a trace written by \
         xentrace starts with 0x2001f003 (TRC_TRACE_CPU_CHANGE, two words, no time stamp); nor \
         does it start as `lowtail host record` (\"LTRC\") and perf (\"PERFILE2\") begin their files"
    )]
    NotATrace {
        /// The word as read, little-endian.
        word: u32,
    },
    /// There are more events than can be kept.
    #[error(
        "offset {offset}: more than {max} events, which is more than can be kept: record for a shorter while"
    )]
    EventLimit {
        /// Where that is, in bytes.
        offset: u64,
        /// How many can be.
        max: usize,
    },
    /// Where a window should begin, something else stands.
    #[error(
        "offset {offset}: expected the next window (0x2001f003) and found {word:#010x}: the \
         window of pCPU {pcpu} at offset {window_offset} does not have the size it states, or \
         the file is damaged"
    )]
    NotAWindow {
        /// Where the word stands.
        offset: u64,
        /// The word as read.
        word: u32,
        /// The pCPU of the window before.
        pcpu: u16,
        /// Where the window before began.
        window_offset: u64,
    },
    /// A window states a size that no Xen buffer has.
    #[error(
        "offset {offset}: a window of {size} bytes for pCPU {pcpu}: a window is a multiple of 4 \
         bytes and at most {max} bytes, the largest buffer that Xen can allocate"
    )]
    WindowSize {
        /// Where the window begins.
        offset: u64,
        /// The pCPU it claims.
        pcpu: u32,
        /// The size it claims, in bytes.
        size: u32,
        /// The largest size possible, in bytes.
        max: u32,
    },
    /// A window claims a pCPU beyond the limit.
    #[error("offset {offset}: a window for pCPU {pcpu}; pCPU numbers up to {max} are read")]
    PcpuLimit {
        /// Where the window begins.
        offset: u64,
        /// The pCPU it claims.
        pcpu: u32,
        /// The largest number read.
        max: u32,
    },
    /// The trace claims more vCPUs than the limit.
    #[error(
        "offset {offset}: more than {max} different vCPUs; no host runs so many, the file is \
         damaged"
    )]
    VcpuLimit {
        /// The record that names one too many.
        offset: u64,
        /// The limit.
        max: usize,
    },
    /// A record does not fit into what is left of its window.
    #[error(
        "offset {offset}: a record of {size} bytes (header {word:#010x}) where the window of \
         pCPU {pcpu} has {left} bytes left; records do not cross the end of a window, the file \
         is damaged"
    )]
    RecordSize {
        /// Where the record begins.
        offset: u64,
        /// Its header word.
        word: u32,
        /// The size that its header states, in bytes.
        size: u32,
        /// The pCPU of the window.
        pcpu: u16,
        /// The bytes left in the window.
        left: u64,
    },
    /// A record that must have a fixed shape has another.
    #[error(
        "offset {offset}: {name} has {words} extra words and {stamp}; it has {expected}, the \
         file is damaged"
    )]
    RecordShape {
        /// Where the record begins.
        offset: u64,
        /// The event's name.
        name: &'static str,
        /// How many extra words it has.
        words: u8,
        /// Whether it has a time stamp.
        stamp: &'static str,
        /// What it should have.
        expected: &'static str,
    },
    /// The file ends in the middle of something.
    #[error(
        "offset {offset}: the file ends {missing} bytes short, in {what} that begins at offset \
         {begins}; was the copy or the recording cut off?"
    )]
    Truncated {
        /// Where the file ends.
        offset: u64,
        /// What is cut.
        what: &'static str,
        /// Where that began.
        begins: u64,
        /// How many bytes are missing at least.
        missing: u64,
    },
    /// A recording of a Linux host that is not as its format has it.
    #[error("offset {offset}: {what}")]
    Malformed {
        /// Where.
        offset: u64,
        /// What stands there, and what should.
        what: String,
    },
    /// A recording of a Linux host has more threads than the limit.
    #[error(
        "offset {offset}: more than {max} different threads; record for a shorter time, or the \
         file is damaged"
    )]
    ThreadLimit {
        /// The record that names one too many.
        offset: u64,
        /// The limit.
        max: usize,
    },
    /// A clock rate was given for a file that has nanoseconds.
    #[error("this file has times in nanoseconds, no clock's ticks: leave it out")]
    ClockKnown,
    /// The clock rate is not usable.
    #[error("a clock of {hz} Hz: the counter's rate is from 1000 Hz to 1000 GHz")]
    CpuHz {
        /// The rate given.
        hz: u64,
    },
    /// Reading failed.
    #[error("offset {offset}: reading failed: {source}")]
    Read {
        /// How far reading had come.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Writing the export failed.
    #[error("writing failed: {0}")]
    Write(#[from] io::Error),
}

impl Error {
    /// The byte offset in the input where the trouble is; `None` if it is not in the input.
    pub fn offset(&self) -> Option<u64> {
        match *self {
            Error::Empty | Error::WrongEndian { .. } | Error::NotATrace { .. } => Some(0),
            Error::NotAWindow { offset, .. }
            | Error::WindowSize { offset, .. }
            | Error::PcpuLimit { offset, .. }
            | Error::VcpuLimit { offset, .. }
            | Error::EventLimit { offset, .. }
            | Error::Malformed { offset, .. }
            | Error::ThreadLimit { offset, .. }
            | Error::RecordSize { offset, .. }
            | Error::RecordShape { offset, .. }
            | Error::Truncated { offset, .. }
            | Error::Read { offset, .. } => Some(offset),
            Error::CpuHz { .. } | Error::ClockKnown | Error::Write(_) => None,
        }
    }
}
