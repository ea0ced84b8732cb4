//! What queues: a thread, or a group on one pCPU (`struct sched_entity`).

use super::version::{FairConfig, FairVersion};

/// One that is, or may be, in a [`Queue`](super::queue::Queue). Times in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Entity {
    /// The queue that it is in when it is in one.
    pub(super) queue: usize,
    /// The queue that it stands for, if it is a group.
    pub(super) my_queue: Option<usize>,
    pub(super) weight: u64,
    /// Run time, divided by the weight.
    pub(super) vruntime: i64,
    /// `vruntime` is relative to the queue's `min_vruntime`: CFS between two pCPUs.
    pub(super) relative: bool,
    /// EEVDF: virtual time at which its slice is over.
    pub(super) deadline: i64,
    /// EEVDF: `deadline` is relative to `vruntime`: between two pCPUs.
    pub(super) relative_deadline: bool,
    /// EEVDF: what it was owed when it left, in virtual time.
    pub(super) lag: i64,
    /// EEVDF: its slice.
    pub(super) slice: i64,
    /// EEVDF: a slice of its own.
    pub(super) own_slice: bool,
    /// EEVDF: up to this virtual time nobody takes its turn away; up to 6.12, while it is its deadline.
    pub(super) protected: Option<i64>,
    /// Up to when its run time is accounted.
    pub(super) exec_start: u64,
    pub(super) sum_exec: u64,
    /// `ran` when its turn began.
    pub(super) prev_sum_exec: u64,
    /// In the queue, or running.
    pub(super) queued: bool,
    /// EEVDF: it sleeps, and is in the queue until it owes nothing.
    pub(super) delayed: bool,
    /// Its policy is `SCHED_IDLE`.
    pub(super) idle: bool,
    /// It has never been in a queue.
    pub(super) fresh: bool,
}

impl Entity {
    /// EEVDF: whether its turn, which has begun, is left to it (`protect_slice`).
    pub(super) fn is_protected(&self, config: &FairConfig) -> bool {
        match config.version {
            // Without RUN_TO_PARITY for a base slice all the same.
            version if version >= FairVersion::Linux618 => {
                self.protected.is_some_and(|until| until > self.vruntime)
            }
            _ => config.run_to_parity && self.protected == Some(self.deadline),
        }
    }
}
