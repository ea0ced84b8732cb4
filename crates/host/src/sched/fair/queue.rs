//! One queue: the threads and groups of one group on one pCPU (`struct cfs_rq`), and who of them
//! is next.

use super::entity::Entity;
use super::version::FairConfig;
use super::weight::{LEAST, virtual_time};

/// Run time that a queue with a limit has, and whether it has run out of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Limited {
    /// The group has a limit.
    pub(super) on: bool,
    /// Nanoseconds; below zero it has overrun.
    pub(super) remaining: i64,
    /// The period in which the run time was fetched.
    pub(super) period: u64,
    /// Since when it is throttled, if it is.
    pub(super) throttled: Option<u64>,
    /// Since when a thread of it could have run and was throttled.
    pub(super) pause: Option<u64>,
}

/// Entities that wait, and the one that runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) pcpu: usize,
    pub(super) group: usize,
    /// Those who wait, in the order in which they came.
    pub(super) waiting: Vec<usize>,
    /// Who runs here; it is not in `waiting`, and may just have left the queue.
    pub(super) current: Option<usize>,
    /// Entities queued here, the current one with them.
    pub(super) entities: u32,
    /// Their weight.
    pub(super) load: u64,
    /// Threads here and below that could run, without those that are throttled below.
    pub(super) runnable: u32,
    /// Never goes back; where new ones are placed.
    pub(super) min_vruntime: i64,
    /// CFS: who has yielded, and is passed over once.
    pub(super) skip: Option<usize>,
    pub(super) limited: Limited,
    /// This queue or one above it is throttled, so many of them.
    pub(super) throttles: u32,
}

impl Queue {
    /// A queue with room for `entities`.
    pub(super) fn new(pcpu: usize, group: usize, entities: usize) -> Self {
        let waiting = Vec::with_capacity(entities);
        Queue { pcpu, group, waiting, ..Queue::default() }
    }

    /// The current one, if it is still in the queue.
    pub(super) fn running(&self, all: &[Entity]) -> Option<usize> {
        self.current.filter(|&e| all[e].queued)
    }

    fn queued<'a>(&'a self, all: &'a [Entity]) -> impl Iterator<Item = usize> + 'a {
        self.waiting.iter().copied().chain(self.running(all))
    }

    /// `update_min_vruntime`.
    pub(super) fn advance(&mut self, all: &[Entity]) {
        if let Some(least) = self.queued(all).map(|e| all[e].vruntime).min() {
            self.min_vruntime = self.min_vruntime.max(least);
        }
    }

    pub(super) fn put(&mut self, e: usize) {
        self.waiting.push(e);
    }

    pub(super) fn take(&mut self, e: usize) {
        if let Some(at) = self.waiting.iter().position(|&other| other == e) {
            self.waiting.remove(at);
        }
    }

    /// CFS: least virtual run time, but for one that has yielded while another is no more than
    /// a wake-up granularity behind it (`pick_next_entity`).
    pub(super) fn pick_cfs(
        &mut self,
        all: &[Entity],
        granularity: i64,
        shift: u32,
    ) -> Option<usize> {
        let running = self.running(all);
        let first = |except: Option<usize>| {
            let waiting = self.waiting.iter().copied();
            // Of equals the current one was here first.
            let all_of_them = running.into_iter().chain(waiting).filter(|&e| Some(e) != except);
            all_of_them.min_by_key(|&e| all[e].vruntime)
        };
        let left = first(None)?;
        if self.skip.take() == Some(left)
            && let Some(second) = first(Some(left))
        {
            let gap = all[second].vruntime - all[left].vruntime;
            if gap <= virtual_time(granularity, all[left].weight, shift) {
                return Some(second);
            }
        }
        Some(left)
    }

    /// Sum of weights, and of virtual run times beyond `zero` times weight.
    fn sums(&self, all: &[Entity], zero: i64, shift: u32) -> (i128, i128) {
        self.queued(all).fold((0, 0), |(load, sum), e| {
            let weight = i128::from((all[e].weight >> shift).max(LEAST));
            (load + weight, sum + weight * i128::from(all[e].vruntime - zero))
        })
    }

    /// EEVDF: the virtual time at which nobody would be owed anything, rounded down
    /// (`avg_vruntime`).
    pub(super) fn average(&self, all: &[Entity], shift: u32) -> i64 {
        let zero = self.min_vruntime;
        let (load, sum) = self.sums(all, zero, shift);
        if load == 0 { zero } else { zero + sum.div_euclid(load) as i64 }
    }

    /// EEVDF: the weight of all in the queue, without the additional bits.
    pub(super) fn weight(&self, all: &[Entity], shift: u32) -> i64 {
        self.sums(all, self.min_vruntime, shift).0 as i64
    }

    /// EEVDF: whether `e` is owed something, or nothing.
    pub(super) fn eligible(&self, all: &[Entity], e: usize, shift: u32) -> bool {
        self.sums(all, all[e].vruntime, shift).1 >= 0
    }

    /// EEVDF: earliest virtual deadline of those who are eligible (`pick_eevdf`).
    pub(super) fn pick_eevdf(&self, all: &[Entity], config: &FairConfig) -> Option<usize> {
        let shift = config.version.weight_shift();
        let running = self.running(all);
        if self.entities == 1
            && let Some(only) = running.or_else(|| self.waiting.first().copied())
        {
            return Some(only);
        }
        let (load, sum) = self.sums(all, self.min_vruntime, shift);
        let eligible = |&e: &usize| sum >= load * i128::from(all[e].vruntime - self.min_vruntime);
        let running = running.filter(eligible);
        if let Some(e) = running
            && config.run_to_parity
            && all[e].protected == Some(all[e].deadline)
        {
            return Some(e);
        }
        let waiting = self.waiting.iter().copied().filter(eligible);
        // Of equals the current one goes on. Somebody is always eligible, but for rounding.
        running
            .into_iter()
            .chain(waiting)
            .min_by_key(|&e| all[e].deadline)
            .or_else(|| self.queued(all).min_by_key(|&e| all[e].vruntime))
    }
}
