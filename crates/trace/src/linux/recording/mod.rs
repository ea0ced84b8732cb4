//! The format of `lowtail host record`; `docs/reference/record.md` has it for other readers.
//!
//! Little-endian. A file is [`MAGIC`], the version as a 16-bit number, two zero bytes, and blocks: kind and size of
//! what follows as 32-bit numbers, then that many bytes, a multiple of 8. Times are nanoseconds of
//! `CLOCK_MONOTONIC`.

mod cpus;
mod facts;
mod queues;
mod read;
mod write;

pub use cpus::Cpus;
pub use facts::{Facts, GROUPS_MAX, GroupFacts, Policy, SchedFacts, ThreadFacts};
pub(crate) use queues::Queues;
pub(crate) use read::Recording;
pub use write::Writer;

/// A file's first bytes.
pub const MAGIC: [u8; 4] = *b"LTRC";
/// The version that is written, and the only one that is read.
pub const VERSION: u16 = 1;
/// Bytes of an event, in a file and in the recorder's memory.
pub const EVENT_BYTES: usize = 16;
/// What stands in a thread number's bits of an event: Linux has numbers up to 2^22
/// (`PID_MAX_LIMIT`, `include/linux/threads.h`).
pub const TID_MASK: u32 = (1 << 22) - 1;

/// Kinds of blocks.
pub(crate) mod kind {
    pub(crate) const ABOUT: u32 = 1;
    pub(crate) const THREADS: u32 = 2;
    pub(crate) const VM: u32 = 3;
    pub(crate) const MEMBERS: u32 = 4;
    pub(crate) const EVENTS: u32 = 5;
    pub(crate) const ROUND: u32 = 6;
    pub(crate) const TRIGGER: u32 = 7;
    pub(crate) const END: u32 = 8;
    pub(crate) const PLACES: u32 = 9;
    pub(crate) const SENDER: u32 = 10;
    pub(crate) const QUEUES: u32 = 11;
    pub(crate) const SCHED: u32 = 12;
    pub(crate) const GROUP: u32 = 13;
    pub(crate) const CPUS: u32 = 14;
    pub(crate) const ATTRIBUTES: u32 = 15;
}

/// No block other than those with events is larger, in bytes.
pub(crate) const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// No block with events is larger, in bytes.
pub(crate) const EVENTS_BYTES_MAX: u32 = 1 << 28;

/// Where, when and how a recording was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// When it begins.
    pub begin_ns: u64,
    /// The same by the host's clock of day, in nanoseconds since 1970 (UTC).
    pub begin_unix_ns: u64,
    /// CPUs that the host can have; their numbers are below.
    pub cpus: u32,
    /// The kernel's release, as `uname -r` has it.
    pub kernel: String,
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// When.
    pub end_ns: u64,
    /// How many events are in it.
    pub events: u64,
    /// How many were lost.
    pub lost: u64,
    /// How many names of threads were lost.
    pub lost_names: u64,
}
