//! Schedules of Linux hosts: what `lowtail host record` writes, and perf's `perf.data`.
//!
//! A format is a file that gives [`Item`](event::Item)s ([`recording`], [`perf`]); [`order`](crate::order) makes one order in time of them, and
//! [`feed`] tells the schedule. Threads are its vCPUs; those that run a machine's vCPU have its name.

mod bytes;
pub(crate) mod event;
mod feed;
mod info;
mod perf;
mod recorded;
pub mod recording;
mod thread;
mod threads;

pub use event::Context;
pub use perf::Layout;
pub use recorded::{Recorded, Trigger, VmInfo};
pub use thread::{Role, ThreadInfo};
pub use threads::THREADS_MAX;

pub(crate) use feed::Feed;
pub(crate) use info::info;
pub(crate) use recording::Queues;
pub(crate) use threads::{Threads, harmless};

/// Which of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Of `lowtail host record`.
    Recording,
    /// Of perf.
    Perf,
}

impl Format {
    /// Tells by a file's first bytes.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(&recording::MAGIC) {
            Some(Format::Recording)
        } else {
            perf::is_perf(head).then_some(Format::Perf)
        }
    }
}
