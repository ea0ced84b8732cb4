//! What happens to a Linux host's threads.

use crate::order::Happened;

/// The thread number of every CPU's idle thread.
pub const IDLE: u32 = 0;
/// It is not known which thread.
pub const UNKNOWN: u32 = u32::MAX;

/// Why a thread has left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It could go on: it was preempted, has yielded, or was woken while it went to sleep.
    Runnable,
    /// It waits for an event.
    Blocked,
    /// It has ended.
    Dead,
}

/// In which context of the kernel's a thread was woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Context {
    /// The file does not tell.
    #[default]
    Unknown,
    /// The waker itself has done it, in a system call or as a thread of the kernel's.
    Thread,
    /// A hard interrupt, such as a timer's or a device's; the waker is the thread that it has interrupted.
    HardInterrupt,
    /// A soft interrupt, such as that of the network's; the waker is the thread that it has interrupted.
    SoftInterrupt,
}

impl Context {
    /// A word for a wake-up in this context.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Context::Unknown => "wake",
            Context::Thread => "wake: by a thread",
            Context::HardInterrupt => "wake: in a hard interrupt",
            Context::SoftInterrupt => "wake: in a soft interrupt",
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One thread makes place for another.
    Switch {
        /// Who leaves the CPU.
        prev: u32,
        /// Why.
        left: Left,
        /// Who gets it.
        next: u32,
    },
    /// A thread can run from now on, in the queue of this CPU; so says thread `by`, if it is known, which runs on the event's CPU
    /// if it is `here`.
    Wake {
        /// Who is woken.
        tid: u32,
        /// In the queue of which CPU, if that is known.
        on: Option<u16>,
        /// Who wakes it, or is interrupted by what wakes it; [`UNKNOWN`] if that is not known.
        by: u32,
        /// In which context.
        context: Context,
        /// `by` runs on the event's CPU.
        here: bool,
    },
    /// From here on, events of the CPU are missing.
    LossBegin,
    /// And until here, where this thread runs.
    LossEnd {
        /// Who runs on the CPU.
        runs: u32,
    },
}

/// Something that happens on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When, in nanoseconds of the file's clock; none is earlier than the one before.
    pub at_ns: u64,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// On which CPU.
    pub cpu: u16,
    /// It has come too late for its place in the order: when it happened is not known.
    pub late: bool,
    /// What.
    pub what: What,
}

impl Event {
    /// Who runs on the CPU up to then, if the event tells.
    pub(crate) fn runner(&self) -> u32 {
        match self.what {
            What::Switch { prev, .. } => prev,
            What::Wake { by, here: true, .. } => by,
            _ => UNKNOWN,
        }
    }
}

impl Happened for Event {
    fn at(&self) -> u64 {
        self.at_ns
    }

    fn pcpu(&self) -> u16 {
        self.cpu
    }
}

/// What stands next in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// An event, with a word for what it is.
    Event(Event, &'static str),
    /// A piece of the file with events of one CPU begins; before its first event, so many were lost.
    Piece { cpu: u16, lost: u64, offset: u64 },
    /// All events up to this time have been read; `None`: all up to the latest time before the last such item.
    Round(Option<u64>),
}
