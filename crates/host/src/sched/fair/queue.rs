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
    /// CFS: who has yielded, and is passed over.
    pub(super) skip: Option<usize>,
    /// Who is preferred for the next turn, ...
    pub(super) next: Option<usize>,
    /// ... or else, under CFS.
    pub(super) last: Option<usize>,
    pub(super) limited: Limited,
    /// This queue or one above it is throttled, so many of them.
    pub(super) throttles: u32,
    /// Threads that wait for the end of that outside of the queue; who came last is at the end.
    pub(super) limbo: Vec<usize>,
}

impl Queue {
    /// A queue with room for `entities`.
    pub(super) fn new(pcpu: usize, group: usize, entities: usize) -> Self {
        let (waiting, limbo) = (Vec::with_capacity(entities), Vec::with_capacity(entities));
        Queue { pcpu, group, waiting, limbo, ..Queue::default() }
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

    /// CFS: least virtual run time, but for one that has yielded; a buddy, and who is next to one that has yielded, may be a
    /// wake-up granularity behind it (`pick_next_entity`).
    pub(super) fn pick_cfs(&self, all: &[Entity], granularity: i64, shift: u32) -> Option<usize> {
        let running = self.running(all);
        let first = |except: Option<usize>| {
            let waiting = self.waiting.iter().copied();
            // Of equals who waits is next (`entity_before`).
            let all_of_them = waiting.chain(running).filter(|&e| Some(e) != except);
            all_of_them.min_by_key(|&e| all[e].vruntime)
        };
        let left = first(None)?;
        let near = |&e: &usize| {
            let gap = all[e].vruntime - all[left].vruntime;
            gap <= virtual_time(granularity, all[left].weight, shift)
        };
        let buddy = self.next.filter(near).or_else(|| self.last.filter(near));
        let second = first(Some(left)).filter(near);
        if self.skip == Some(left) {
            return buddy.or(second).or(Some(left));
        }
        buddy.or(Some(left))
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

    /// EEVDF: earliest virtual deadline of those who are eligible (`pick_eevdf`); who runs goes on while it is protected, if
    /// somebody is to `protect` it.
    pub(super) fn pick_eevdf(
        &self,
        all: &[Entity],
        config: &FairConfig,
        protect: bool,
    ) -> Option<usize> {
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
            && protect
            && all[e].is_protected(config)
        {
            return Some(e);
        }
        let waiting = self.waiting.iter().copied().filter(eligible);
        // Of equals who waits is next (`entity_before`), such as one that wakes, is owed nothing, and finds a slice just over.
        // Somebody is always eligible, but for rounding.
        waiting
            .chain(running)
            .min_by_key(|&e| all[e].deadline)
            .or_else(|| self.queued(all).min_by_key(|&e| all[e].vruntime))
    }
}

#[cfg(test)]
mod tests {
    use super::super::version::FairVersion;
    use super::*;

    /// Entities of `(weight, vruntime, deadline)` in one queue; the first one runs.
    fn queue(of: &[(u64, i64, i64)]) -> (Queue, Vec<Entity>) {
        let mut queue = Queue::new(0, 0, of.len());
        let entity = |&(weight, vruntime, deadline): &(u64, i64, i64)| Entity {
            weight: weight << 10,
            vruntime,
            deadline,
            queued: true,
            ..Entity::default()
        };
        let all: Vec<Entity> = of.iter().map(entity).collect();
        queue.current = Some(0);
        queue.entities = of.len() as u32;
        queue.load = all.iter().map(|entity| entity.weight).sum();
        (1..of.len()).for_each(|e| queue.put(e));
        queue.advance(&all);
        (queue, all)
    }

    fn free() -> FairConfig {
        FairConfig { run_to_parity: false, ..FairConfig::new(FairVersion::Linux66) }
    }

    /// Virtual times 0, 4 and 11: the average is 5, so that the third is ahead of it and has to
    /// wait though its deadline is first. With the third of weight 1 and the others 3, it is
    /// (0 + 12 + 11) / 7, a little more than 3, and the second has to wait as well.
    #[test]
    fn the_earliest_deadline_of_the_eligible_is_next() {
        let (equal, all) = queue(&[(1024, 0, 10), (1024, 4, 9), (1024, 11, 6)]);
        assert_eq!(equal.average(&all, 10), 5);
        let eligible =
            |queue: &Queue, all: &[Entity]| [0, 1, 2].map(|e| queue.eligible(all, e, 10));
        assert_eq!(eligible(&equal, &all), [true, true, false]);
        assert_eq!(equal.pick_eevdf(&all, &free(), true), Some(1));
        let (heavy, all) = queue(&[(3072, 0, 10), (3072, 4, 9), (1024, 11, 6)]);
        assert_eq!(heavy.average(&all, 10), 3);
        assert_eq!(eligible(&heavy, &all), [true, false, false]);
        assert_eq!(heavy.pick_eevdf(&all, &free(), true), Some(0));
    }

    /// Below zero an average is rounded down, too: who is exactly there is eligible.
    #[test]
    fn averages_are_rounded_down() {
        let (mut queue, mut all) = queue(&[(1024, 0, 10), (1024, 3, 10)]);
        queue.min_vruntime = 10;
        assert_eq!(queue.average(&all, 10), 1);
        all[1].vruntime = 2;
        assert_eq!(queue.average(&all, 10), 1);
        assert!(!queue.eligible(&all, 1, 10) && queue.eligible(&all, 0, 10));
    }

    /// Who has begun its slice is left alone while it is eligible, whatever others' deadlines.
    #[test]
    fn parity_is_run_to() {
        let config = FairConfig::new(FairVersion::Linux66);
        let (queue, mut all) = queue(&[(1024, 0, 10), (1024, 1, 5)]);
        assert_eq!(queue.pick_eevdf(&all, &config, true), Some(0));
        all[0].protected = Some(10);
        all[1].vruntime = 0;
        assert_eq!(queue.pick_eevdf(&all, &config, true), Some(0));
        assert_eq!(queue.pick_eevdf(&all, &free(), true), Some(1));
        // It is ahead: its protection is over.
        all[0].vruntime = 3;
        assert_eq!(queue.pick_eevdf(&all, &config, true), Some(1));
    }

    /// The example of Stoica and Abdel-Wahab (1995): equal clients; the first has asked for 2
    /// at time 0, the second for 1 at time 1, when the first has run for 1. Virtual time goes on
    /// at half the rate then. Their deadlines are equal, and the paper takes either; Linux takes who waits. At 1.5 it is the second
    /// one's turn, with the deadline 2, before the first one's next request, which is eligible at 2.
    #[test]
    fn the_paper_is_followed() {
        let unit = 1_000;
        let (queue, all) = queue(&[(1024, unit, 2 * unit), (1024, unit, 2 * unit)]);
        assert_eq!(queue.pick_eevdf(&all, &free(), true), Some(1));
        let (queue, all) = self::queue(&[(1024, 2 * unit, 4 * unit), (1024, unit, 2 * unit)]);
        assert_eq!(queue.average(&all, 10), 3 * unit / 2);
        assert_eq!(queue.pick_eevdf(&all, &free(), true), Some(1));
    }

    /// CFS: least virtual run time, who waits of equals; one that yields is passed over
    /// unless the other is more than a granularity behind; a buddy is preferred in the same way.
    #[test]
    fn the_least_run_time_is_next() {
        let (mut queue, all) = queue(&[(1024, 5, 0), (1024, 5, 0), (1024, 900, 0)]);
        assert_eq!(queue.pick_cfs(&all, 100, 10), Some(1));
        queue.skip = Some(1);
        assert_eq!(queue.pick_cfs(&all, 100, 10), Some(0));
        queue.next = Some(2);
        assert_eq!(queue.pick_cfs(&all, 100, 10), Some(0));
        assert_eq!(queue.pick_cfs(&all, 895, 10), Some(2));
        let (mut queue, all) = self::queue(&[(1024, 5, 0), (1024, 900, 0)]);
        queue.skip = Some(0);
        assert_eq!(queue.pick_cfs(&all, 100, 10), Some(0));
    }
}
