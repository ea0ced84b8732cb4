//! Buddies: who is preferred for the next turn, a little before those who are due (`cfs_rq->next`, `cfs_rq->last`).
//!
//! A group from which a thread has gone to sleep is preferred, so that the rest of its turn goes to its other threads; and under CFS
//! who has just woken and interrupts. The first EEVDF has no use for them; since 2a77e4be12cb, which is in later 6.12.y, it prefers such
//! groups.

use super::queue::Queue;
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
    pub(super) fn set_next_buddy(&mut self, e: Option<usize>) {
        if self.has_next_buddies() {
            self.set_buddy(e, |queue| &mut queue.next);
        }
    }

    /// CFS: the thread `e` has been interrupted, and with many it goes on soon (`set_last_buddy`).
    pub(super) fn set_last_buddy(&mut self, e: usize) {
        if self.queues[self.entities[e].queue].entities >= MANY {
            self.set_buddy(Some(e), |queue| &mut queue.last);
        }
    }

    /// `e` and its groups become `buddy` in their queues.
    fn set_buddy(&mut self, mut e: Option<usize>, buddy: fn(&mut Queue) -> &mut Option<usize>) {
        while let Some(here) = e {
            let entity = &self.entities[here];
            if !entity.queued || entity.idle {
                return;
            }
            *buddy(&mut self.queues[entity.queue]) = e;
            e = self.above(here);
        }
    }

    /// `e` is preferred no more, nor its groups because of it, nor passed over (`clear_buddies`).
    pub(super) fn clear_buddies(&mut self, e: usize) {
        self.clear_buddy(e, |queue| &mut queue.next);
        self.clear_buddy(e, |queue| &mut queue.last);
        let skip = &mut self.queues[self.entities[e].queue].skip;
        *skip = skip.filter(|&other| other != e);
    }

    fn clear_buddy(&mut self, e: usize, buddy: fn(&mut Queue) -> &mut Option<usize>) {
        let mut e = Some(e);
        while let Some(here) = e {
            let now = buddy(&mut self.queues[self.entities[here].queue]);
            if *now != e {
                return;
            }
            *now = None;
            e = self.above(here);
        }
    }
}
