//! Who is next on a pCPU, and whether somebody who wakes interrupts.

use super::state::Fair;
use super::version::FairVersion;
use super::weight::virtual_time;
use crate::cgroup::Policy;

impl Fair {
    fn pick(&mut self, q: usize) -> Option<usize> {
        if self.eevdf() {
            // Without a look at deadlines and protection.
            if let Some(next) = self.queues[q].next.filter(|&next| self.eligible(next)) {
                return Some(next);
            }
            return self.queues[q].pick_eevdf(&self.entities, &self.config, true);
        }
        let shift = self.config.version.weight_shift();
        self.queues[q].pick_cfs(&self.entities, self.tunables.wakeup_granularity, shift)
    }

    /// The thread that runs on pCPU `p` next, `prev` being the one that has run
    /// (`pick_next_task_fair`). Both become what they are now in all queues on their way.
    pub(super) fn pick_thread(&mut self, p: usize, mut prev: Option<usize>) -> Option<usize> {
        'again: loop {
            let (mut q, mut throttled) = (p, false);
            let next = loop {
                if self.running(q).is_some() {
                    self.update_curr(q);
                }
                if self.throttles_threads() {
                    throttled |= self.check_limit(q);
                } else if self.queues[q].current.is_some() && self.check_limit(q) {
                    self.put_back(prev.take(), None);
                    continue 'again;
                }
                let Some(e) = self.pick(q) else {
                    self.put_back(prev, None);
                    return None;
                };
                if self.entities[e].delayed {
                    self.finish_delayed_dequeue(e);
                    continue 'again;
                }
                match self.entities[e].my_queue {
                    Some(own) => q = own,
                    None => break e,
                }
            };
            self.put_back(prev, Some(next));
            self.set_next(next);
            if throttled {
                self.enter_limbo(next);
                prev = Some(next);
                continue 'again;
            }
            return Some(next);
        }
    }

    /// Whether the thread `next` is `e` or in it.
    fn leads_to(&self, e: usize, next: Option<usize>) -> bool {
        let mut next = next;
        while let Some(here) = next {
            if here == e {
                return true;
            }
            next = self.above(here);
        }
        false
    }

    /// `prev` runs no more, nor its groups, but for those that `next` is in as well
    /// (`put_prev_entity`).
    pub(super) fn put_back(&mut self, prev: Option<usize>, next: Option<usize>) {
        let mut prev = prev;
        while let Some(e) = prev.filter(|&e| !self.leads_to(e, next)) {
            let q = self.entities[e].queue;
            if self.queues[q].current == Some(e) {
                if self.entities[e].queued {
                    self.update_curr(q);
                }
                self.check_limit(q);
                if self.entities[e].queued {
                    self.queues[q].put(e);
                    self.pass.put += u32::from(e >= self.threads);
                }
                self.queues[q].current = None;
            }
            prev = self.above(e);
        }
    }

    /// `next` runs, and its groups (`set_next_entity`).
    fn set_next(&mut self, next: usize) {
        let mut next = Some(next);
        while let Some(e) = next {
            let q = self.entities[e].queue;
            // A group that goes on keeps what it is to its queue: preferred after a thread of it went to sleep, or passed over.
            if self.queues[q].current != Some(e) {
                self.clear_buddies(e);
                self.queues[q].take(e);
                self.queues[q].current = Some(e);
                let entity = &mut self.entities[e];
                entity.exec_start = self.now;
                entity.prev_sum_exec = entity.sum_exec;
                let protected = self.protected_until(q, e);
                self.entities[e].protected = Some(protected);
            }
            next = self.above(e);
        }
    }

    /// Until which virtual time `e`, which begins to run, is left alone (`set_protect_slice`).
    fn protected_until(&self, q: usize, e: usize) -> i64 {
        let entity = &self.entities[e];
        if self.config.version < FairVersion::Linux618 {
            return entity.deadline;
        }
        let base = self.config.base_slice.as_ns() as i64;
        let shortest = self.least_slice(q).filter(|_| self.config.run_to_parity).unwrap_or(base);
        if shortest >= entity.slice {
            return entity.deadline;
        }
        entity.deadline.min(entity.vruntime + self.virtually(shortest, e))
    }

    pub(super) fn depth(&self, e: usize) -> usize {
        std::iter::successors(Some(e), |&e| self.above(e)).count()
    }

    /// The thread `e` has come to pCPU `p`: may it interrupt there? (`check_preempt_wakeup`)
    pub(super) fn check_preempt(&mut self, p: usize, e: usize) {
        let idle = self.cpus[p].current.is_none();
        if self.reschedule.has(self.pcpu(p)) {
            // It is to choose again anyway.
            return;
        }
        let waits = self.queues[self.entities[e].queue].throttles > 0 && !self.throttles_threads();
        let Some(current) = self.cpus[p].current else {
            if idle && !waits {
                self.resched(p);
            }
            return;
        };
        if waits || self.is_realtime(current) || current == e {
            return;
        }
        if self.entities[current].idle && !self.entities[e].idle {
            self.resched(p);
            return;
        }
        if self.tasks[e].policy != Policy::Other {
            return;
        }
        // Up to where both are in one queue.
        let (mut ours, mut theirs) = (current, e);
        let (mut our_depth, mut their_depth) = (self.depth(ours), self.depth(theirs));
        while self.entities[ours].queue != self.entities[theirs].queue {
            if our_depth >= their_depth {
                (ours, our_depth) = (self.above(ours).unwrap_or(ours), our_depth - 1);
            }
            if their_depth > our_depth {
                (theirs, their_depth) = (self.above(theirs).unwrap_or(theirs), their_depth - 1);
            }
        }
        let q = self.entities[ours].queue;
        if ours == theirs || !self.entities[ours].queued {
            return;
        }
        self.update_curr(q);
        if self.interrupts(q, theirs, ours) {
            self.resched(p);
        }
    }

    /// Whether `new`, which has just come into `q`, is to run instead of `current`.
    fn interrupts(&mut self, q: usize, new: usize, current: usize) -> bool {
        if self.eevdf() {
            if self.config.version >= FairVersion::Linux618 {
                return self.interrupts_618(q, new, current);
            }
            if self.short_interrupts(new, current) {
                self.entities[current].protected = None;
            }
            return self.pick(q) == Some(new);
        }
        let shift = self.config.version.weight_shift();
        let (ours, theirs) = (&self.entities[current], &self.entities[new]);
        let granularity = virtual_time(self.tunables.wakeup_granularity, theirs.weight, shift);
        let interrupts = ours.vruntime - theirs.vruntime > granularity;
        if interrupts {
            self.set_next_buddy(Some(new));
            if current < self.threads {
                self.set_last_buddy(current);
            }
        }
        interrupts
    }

    /// The same in 6.18: a shorter slice ends protection if it is then the first, else it shortens it.
    fn interrupts_618(&mut self, q: usize, new: usize, current: usize) -> bool {
        let short =
            self.config.preempt_short && self.entities[new].slice < self.entities[current].slice;
        if self.queues[q].pick_eevdf(&self.entities, &self.config, !short) == Some(new) {
            if short {
                self.entities[current].protected = None;
            }
            return true;
        }
        if short && self.config.run_to_parity {
            let shortest = self.least_slice(q).unwrap_or(self.entities[current].slice);
            let until = self.entities[current].vruntime + self.virtually(shortest, current);
            let protected = &mut self.entities[current].protected;
            *protected = protected.map(|before| before.min(until));
        }
        false
    }

    /// Whether `new` ends the protection of `current` by its shorter slice (`do_preempt_short`).
    fn short_interrupts(&self, new: usize, current: usize) -> bool {
        let (ours, theirs) = (&self.entities[current], &self.entities[new]);
        self.config.preempt_short
            && theirs.slice < ours.slice
            && self.eligible(new)
            && (theirs.deadline < ours.deadline || !self.eligible(current))
    }

    /// The tick of the pCPU on which the thread `e` runs (`entity_tick`).
    pub(super) fn tick_thread(&mut self, e: usize) {
        let mut e = Some(e);
        while let Some(here) = e {
            let q = self.entities[here].queue;
            self.update_curr(q);
            self.reweigh_group(q);
            if !self.eevdf() && self.queues[q].entities > 1 {
                self.check_turn(q, here);
            }
            e = self.above(here);
        }
    }

    /// CFS: whether the turn of `e` is over (`check_preempt_tick`).
    fn check_turn(&mut self, q: usize, e: usize) {
        let turn = self.slice_cfs(q, e);
        let entity = &self.entities[e];
        let ran = (entity.sum_exec - entity.prev_sum_exec) as i64;
        let waiting = self.queues[q].waiting.iter();
        let least = waiting.map(|&other| self.entities[other].vruntime).min();
        let ahead = least.map_or(0, |least| entity.vruntime - least);
        if ran > turn {
            self.resched(q);
            self.clear_buddies(e);
        } else if ran >= self.tunables.min_granularity && ahead > turn {
            self.resched(q);
        }
    }

    /// `e`, which runs, gives up its turn (`yield_task_fair`).
    pub(super) fn yield_thread(&mut self, e: usize) {
        let q = self.entities[e].queue;
        if self.is_alone(e) {
            return;
        }
        self.clear_buddies(e);
        self.update_curr(q);
        if self.eevdf() {
            let more = self.virtually(self.entities[e].slice, e);
            if self.config.version >= FairVersion::Linux612 {
                // What is left of its turn is run.
                if self.eligible(e) {
                    let entity = &mut self.entities[e];
                    entity.vruntime = entity.deadline;
                    entity.deadline += more;
                }
                self.queues[q].advance(&self.entities);
                return;
            }
            self.entities[e].deadline += more;
            return;
        }
        let mut e = Some(e);
        while let Some(here) = e {
            let q = self.entities[here].queue;
            self.queues[q].skip = Some(here);
            e = self.above(here);
        }
    }

    /// Whether no other thread is in a queue of its pCPU, not even one that is to leave (`rq->nr_running`).
    fn is_alone(&self, e: usize) -> bool {
        let root = &self.queues[self.queues[self.entities[e].queue].pcpu];
        let mut way = std::iter::successors(Some(e), |&here| self.above(here));
        root.runnable == 1 && way.all(|here| self.queues[self.entities[here].queue].entities == 1)
    }
}
