//! What the scheduler tells: whether it is there, and what it has done.

use serde::Serialize;

use lowtail_kernel::Histogram;
use lowtail_out::seconds;

/// Whether the scheduler is still in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is.
    Enabled,
    /// The kernel has ended it, and has all threads in its own scheduler again.
    Ended {
        /// What kind of an end it was, in the kernel's words ("runnable task stall").
        reason: String,
        /// What the kernel says more.
        message: String,
    },
}

/// What has come of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Run time of its threads while they were small, in nanoseconds.
    #[serde(rename = "small_run_time_seconds", serialize_with = "seconds::ns")]
    pub small_ns: u64,
    /// And while they were large.
    #[serde(rename = "large_run_time_seconds", serialize_with = "seconds::ns")]
    pub large_ns: u64,
    /// Times that one of them interrupted somebody in the middle of a turn.
    pub preemptions: u64,
    /// Times that a small one became large.
    pub demotions: u64,
    /// Times that one had to wait for a limit.
    #[serde(rename = "cap_waits")]
    pub parked: u64,
    /// For how long its threads have waited while an ordinary thread, or one of a class above, had their CPU: each second, and when they
    /// run again.
    #[serde(rename = "ordinary_wait_seconds", serialize_with = "seconds::ns")]
    pub ordinary_wait_ns: u64,
    /// From runnable to running, of all its threads.
    #[serde(rename = "run_queue_latency")]
    pub waits: Histogram,
}

impl Stats {
    /// What has come since `before`.
    pub(super) fn since(mut self, before: &Stats) -> Stats {
        self.small_ns -= before.small_ns.min(self.small_ns);
        self.large_ns -= before.large_ns.min(self.large_ns);
        self.preemptions -= before.preemptions.min(self.preemptions);
        self.demotions -= before.demotions.min(self.demotions);
        self.parked -= before.parked.min(self.parked);
        self.ordinary_wait_ns -= before.ordinary_wait_ns.min(self.ordinary_wait_ns);
        self.waits = self.waits.since(&before.waits);
        self
    }
}
