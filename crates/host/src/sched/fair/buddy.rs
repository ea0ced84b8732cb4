//! Buddies: who is preferred for the next turn, a little before those who are due (`cfs_rq->next`, `cfs_rq->last`).
//!
//! A group from which a thread has gone to sleep is preferred, so that the rest of its turn goes to its other threads; and under CFS
//! who has just woken and interrupts. The first EEVDF has no use for them; since 2a77e4be12cb, which is in later 6.12.y, it prefers such
//! groups.

use super::state::Fair;
use super::version::FairVersion;

/// Entities from which on who was interrupted is to go on soon (`sched_nr_latency`).
const MANY: u32 = 8;

impl Fair {
    /// Who wakes, and groups of those who sleep, are preferred under CFS since 3.0 (2f36825b176f).
    fn has_next_buddies(&self) -> bool {
        let version = self.config.version;
        version >= FairVersion::Linux612 || version > FairVersion::Linux2639 && !version.is_eevdf()
    }

    /// `e` and its groups are preferred in their queues (`set_next_buddy`).
    pub(super) fn set_next_buddy(&mut self, mut e: Option<usize>) {
        if !self.has_next_buddies() {
            return;
        }
        while let Some(here) = e.filter(|&e| self.may_be_buddy(e)) {
            let q = self.entities[here].queue;
            self.queues[q].next = Some(here);
            e = self.above(here);
        }
    }

    /// CFS: the thread `e` has been interrupted, and with many it goes on soon (`set_last_buddy`).
    pub(super) fn set_last_buddy(&mut self, e: usize) {
        if self.queues[self.entities[e].queue].entities < MANY {
            return;
        }
        let mut e = Some(e);
        while let Some(here) = e.filter(|&e| self.may_be_buddy(e)) {
            let q = self.entities[here].queue;
            self.queues[q].last = Some(here);
            e = self.above(here);
        }
    }

    fn may_be_buddy(&self, e: usize) -> bool {
        self.entities[e].queued && !self.entities[e].idle
    }

    /// `e` is preferred no more, nor its groups because of it (`clear_buddies`).
    pub(super) fn clear_buddies(&mut self, e: usize) {
        let mut next = Some(e);
        while let Some(here) = next.filter(|&e| self.queues[self.entities[e].queue].next == Some(e))
        {
            let q = self.entities[here].queue;
            self.queues[q].next = None;
            next = self.above(here);
        }
        let mut last = Some(e);
        while let Some(here) = last.filter(|&e| self.queues[self.entities[e].queue].last == Some(e))
        {
            let q = self.entities[here].queue;
            self.queues[q].last = None;
            last = self.above(here);
        }
        let q = self.entities[e].queue;
        if self.queues[q].skip == Some(e) {
            self.queues[q].skip = None;
        }
    }
}
