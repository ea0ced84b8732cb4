//! Limits since 6.18 (e1fad12dcb66): a group that has run out stays in its queue, and each of its threads goes, into limbo, when it
//! is next and would return to user space. So a thread in the kernel holds no lock while it is throttled.
//!
//! That a thread runs up to there takes no time here.

use super::state::{EnqueueReason, Fair, Leave};
use super::version::FairVersion;

impl Fair {
    /// Whether limits take threads out one by one, and not their group.
    pub(super) fn throttles_threads(&self) -> bool {
        self.config.version >= FairVersion::Linux618
    }

    /// Whether all in `q` is out of the tree because of its limit.
    pub(super) fn is_cut_off(&self, q: usize) -> bool {
        self.queues[q].limited.throttled.is_some() && !self.throttles_threads()
    }

    /// The thread `e`, which would run now, goes into limbo (`throttle_cfs_rq_work`).
    pub(super) fn enter_limbo(&mut self, e: usize) {
        self.pass.throttled += 1;
        self.dequeue_task(e, Leave::Throttle);
        self.unlink_task(e);
        self.tasks[e].in_limbo = true;
        let q = self.entities[e].queue;
        self.queues[q].limbo.push(e);
        // Where a pause begins with the first thread that could run (`record_throttle_clock`).
        let (pcpu, mut group) = (self.queues[q].pcpu, self.queues[q].group);
        while group != 0 {
            let limited = &mut self.queues[group * self.cpus.len() + pcpu].limited;
            if limited.throttled.is_some() {
                limited.pause = limited.pause.or(Some(self.now));
            }
            group = self.groups[group].above;
        }
    }

    /// Nothing keeps `q`, or not by itself: threads come back, there and in groups below, who came last first (`tg_unthrottle_up`).
    pub(super) fn leave_limbo(&mut self, q: usize) {
        let (pcpu, group) = (self.queues[q].pcpu, self.queues[q].group);
        for at in (0..self.groups[group].below.len()).rev() {
            let below = self.groups[group].below[at] * self.cpus.len() + pcpu;
            if self.queues[below].throttles > 0 {
                continue;
            }
            while let Some(e) = self.queues[below].limbo.pop() {
                self.tasks[e].in_limbo = false;
                self.enqueue_task(e, EnqueueReason::Wake);
                self.link_task(e);
            }
        }
        if self.cpus[pcpu].current.is_none() && self.queues[pcpu].runnable > 0 {
            self.resched(q);
        }
    }
}
