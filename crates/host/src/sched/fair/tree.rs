//! The tree of queues: threads and groups come and go, run time is accounted, the shares of a
//! group are spread over pCPUs.

use super::state::{EnqueueReason, Fair, Leave};
use super::version::FairVersion;
use super::weight::LEAST;

impl Fair {
    /// Accounts for what the current one of `q` has run (`update_curr`).
    pub(super) fn update_curr(&mut self, q: usize) {
        let Some(e) = self.queues[q].current else { return };
        let ran = self.now - self.entities[e].exec_start;
        if ran == 0 {
            return;
        }
        let passed = self.virtually(ran as i64, e);
        let entity = &mut self.entities[e];
        entity.exec_start = self.now;
        entity.sum_exec += ran;
        entity.vruntime += passed;
        self.queues[q].advance(&self.entities);
        if self.eevdf() {
            self.renew_deadline(q, e);
        }
        self.account_runtime(q, ran);
    }

    /// EEVDF: a slice is over, the next one begins (`update_deadline`).
    fn renew_deadline(&mut self, q: usize, e: usize) {
        let entity = &self.entities[e];
        let renewed = entity.vruntime >= entity.deadline;
        if renewed {
            let slice = if entity.own_slice { entity.slice } else { self.tunables.base_slice };
            let deadline = entity.vruntime + self.virtually(slice, e);
            let entity = &mut self.entities[e];
            (entity.slice, entity.deadline) = (slice, deadline);
        }
        let entity = &self.entities[e];
        let resched = renewed
            || if self.config.version >= FairVersion::Linux618 {
                !entity.is_protected(&self.config)
            } else {
                // Protection that a shorter slice has ended lasts no longer than what it is owed.
                let ended = entity.protected != Some(entity.deadline);
                self.config.preempt_short && ended && !self.eligible(e)
            };
        if resched && self.queues[q].entities > 1 {
            self.resched(q);
            self.clear_buddies(e);
        }
    }

    /// The pCPU of `q` is to choose again.
    pub(super) fn resched(&mut self, q: usize) {
        let p = self.queues[q].pcpu;
        self.reschedule.insert(self.pcpu(p));
    }

    /// Puts `e`, which comes into `q`, at its place in virtual time (`place_entity`).
    fn place(&mut self, q: usize, e: usize, fresh: bool) {
        if self.eevdf() {
            return self.place_eevdf(q, e, fresh);
        }
        let mut at = self.queues[q].min_vruntime;
        if fresh {
            // One slice in debt (START_DEBIT), for its place among those who are here.
            let slice = self.slice_cfs(q, e);
            at += self.virtually(slice, e);
        } else {
            // Sleep counts for half a latency (GENTLE_FAIR_SLEEPERS).
            at -= self.tunables.latency / 2;
        }
        let entity = &mut self.entities[e];
        entity.vruntime = if fresh { at } else { entity.vruntime.max(at) };
    }

    /// It is owed as much as when it left. What it brings moves the average by its own weight;
    /// hence (W + w) / W times its lag.
    fn place_eevdf(&mut self, q: usize, e: usize, fresh: bool) {
        let average = self.average(q);
        if !self.entities[e].own_slice {
            self.entities[e].slice = self.tunables.base_slice;
        }
        let mut lag = 0;
        if self.queues[q].entities > 0 {
            let load = self.queues[q].weight(&self.entities, self.shift());
            let own = (self.entities[e].weight >> self.shift()).max(LEAST) as i64;
            lag = self.entities[e].lag * (load + own) / load.max(1);
        }
        let mut slice = self.virtually(self.entities[e].slice, e);
        let entity = &mut self.entities[e];
        entity.vruntime = average - lag;
        if std::mem::take(&mut entity.relative_deadline) {
            entity.deadline += entity.vruntime;
            return;
        }
        if fresh {
            // Half a slice to begin with (PLACE_DEADLINE_INITIAL).
            slice /= 2;
        }
        entity.deadline = entity.vruntime + slice;
    }

    /// EEVDF: notes what `e` is owed, at most two slices or a tick (`update_entity_lag`).
    fn note_lag(&mut self, q: usize, e: usize) {
        let most = (2 * self.entities[e].slice).max(self.tunables.tick as i64);
        let most = self.virtually(most, e);
        self.entities[e].lag = (self.average(q) - self.entities[e].vruntime).clamp(-most, most);
    }

    /// CFS: how long the turn of `e` is (`sched_slice`).
    pub(super) fn slice_cfs(&self, q: usize, e: usize) -> i64 {
        let tunables = &self.tunables;
        let mut queue = q;
        let mut here = e;
        // Since 5.13 all threads of the pCPU count (ALT_PERIOD), and no turn is shorter than the least (BASE_SLICE).
        let (others, least) = if self.config.version < FairVersion::Linux61 {
            (self.queues[q].entities, 0)
        } else {
            (self.queues[self.queues[q].pcpu].runnable, tunables.min_granularity)
        };
        let others = i64::from(others) + i64::from(!self.entities[e].queued);
        let few = tunables.latency / tunables.min_granularity.max(1);
        let mut slice =
            if others > few { others * tunables.min_granularity } else { tunables.latency };
        loop {
            let weight = self.entities[here].weight;
            let mut load = self.queues[queue].load;
            if !self.entities[here].queued {
                load += weight;
            }
            slice = (i128::from(slice) * i128::from(weight) / i128::from(load.max(1))) as i64;
            match self.above(here) {
                Some(above) => here = above,
                None => return slice.max(least),
            }
            queue = self.entities[here].queue;
        }
    }

    /// `e` comes into its queue (`enqueue_entity`).
    pub(super) fn enqueue_entity(&mut self, e: usize, reason: EnqueueReason) {
        let q = self.entities[e].queue;
        self.update_curr(q);
        self.reweigh(e);
        let min = self.queues[q].min_vruntime;
        let fresh = std::mem::take(&mut self.entities[e].fresh);
        if std::mem::take(&mut self.entities[e].relative) {
            self.entities[e].vruntime += min;
        }
        if self.eevdf() || fresh || reason == EnqueueReason::Wake {
            self.place(q, e, fresh);
        }
        self.add_load(q, self.entities[e].weight as i64);
        self.entities[e].queued = true;
        let queue = &mut self.queues[q];
        queue.entities += 1;
        if queue.current != Some(e) {
            queue.put(e);
        }
        if queue.entities == 1 {
            self.check_enqueue_throttle(q);
        }
    }

    /// `e` goes out of its queue (`dequeue_entity`); false if it is only marked as gone, because
    /// it has run more than its part and is to wait that out.
    pub(super) fn dequeue_entity(&mut self, e: usize, sleeps: bool, may_stay: bool) -> bool {
        let q = self.entities[e].queue;
        self.update_curr(q);
        self.clear_buddies(e);
        let eevdf = self.eevdf();
        let delayed = self.entities[e].delayed;
        if eevdf && may_stay && self.config.delay_dequeue && !delayed && !self.eligible(e) {
            self.entities[e].delayed = true;
            return false;
        }
        if eevdf {
            self.note_lag(q, e);
            let entity = &mut self.entities[e];
            if std::mem::take(&mut entity.delayed) {
                // What it has waited out is not owed to it (DELAY_ZERO).
                entity.lag = entity.lag.min(0);
            }
            if !sleeps && self.config.version >= FairVersion::Linux612 {
                entity.deadline -= entity.vruntime;
                entity.relative_deadline = true;
            }
        }
        self.entities[e].queued = false;
        self.queues[q].entities -= 1;
        self.queues[q].take(e);
        self.add_load(q, -(self.entities[e].weight as i64));
        self.give_back(q);
        self.queues[q].advance(&self.entities);
        self.reweigh_group(q);
        true
    }

    fn add_load(&mut self, q: usize, load: i64) {
        let queue = &mut self.queues[q];
        queue.load = queue.load.saturating_add_signed(load);
        let total = &mut self.groups[queue.group].load;
        *total = total.saturating_add_signed(load);
        self.note_load(q);
    }

    /// The thread `e` comes into its queue, and its groups with it (`enqueue_task_fair`).
    pub(super) fn enqueue_task(&mut self, e: usize, reason: EnqueueReason) {
        let (mut e, mut reason) = (Some(e), reason);
        let mut slice = None;
        while let Some(here) = e {
            if self.entities[here].queued {
                if self.entities[here].delayed {
                    self.requeue_delayed(here);
                }
                break;
            }
            if let Some(slice) = slice {
                (self.entities[here].slice, self.entities[here].own_slice) = (slice, true);
            }
            self.enqueue_entity(here, reason);
            self.moved_groups += u32::from(here >= self.threads);
            let q = self.entities[here].queue;
            slice = self.least_slice(q);
            self.queues[q].runnable += 1;
            self.note_load(q);
            self.begin_pause(q);
            if self.is_cut_off(q) {
                return;
            }
            reason = EnqueueReason::Wake;
            e = self.above(here);
        }
        self.pass_slice_up(e, slice);
        self.count_up(e, 1);
    }

    /// EEVDF since 6.12: who comes or goes changes the slices of all groups above, also of those that stay in their queues.
    fn pass_slice_up(&mut self, mut e: Option<usize>, mut slice: Option<i64>) {
        while let (Some(here), Some(least)) = (e, slice) {
            self.entities[here].slice = least;
            slice = self.least_slice(self.entities[here].queue);
            e = self.above(here);
        }
    }

    /// EEVDF since 6.12: a group's slice is the shortest in it.
    pub(super) fn least_slice(&self, q: usize) -> Option<i64> {
        if self.config.version < FairVersion::Linux612 {
            return None;
        }
        let queue = &self.queues[q];
        queue.waiting.iter().copied().chain(self.running(q)).map(|e| self.entities[e].slice).min()
    }

    /// So many threads more, or less, could run from the queue of `e` upwards.
    pub(super) fn count_up(&mut self, mut e: Option<usize>, more: i32) {
        while let Some(here) = e {
            let q = self.entities[here].queue;
            let queue = &mut self.queues[q];
            queue.runnable = queue.runnable.saturating_add_signed(more);
            self.note_load(q);
            if self.is_cut_off(q) {
                self.begin_pause(q);
                return;
            }
            self.reweigh(here);
            e = self.above(here);
        }
    }

    /// EEVDF: one that was to leave stays after all (`requeue_delayed_entity`). The run time of who runs is not brought up to date
    /// before, so that one that has long waited out what it owed since the last update does not count as owed something.
    pub(super) fn requeue_delayed(&mut self, e: usize) {
        let q = self.entities[e].queue;
        self.note_lag(q, e);
        self.entities[e].delayed = false;
        if self.entities[e].lag > 0 && self.queues[q].current != Some(e) {
            // What it has waited out is not owed to it (DELAY_ZERO).
            let weight = self.entities[e].weight as i64;
            self.queues[q].take(e);
            self.queues[q].entities -= 1;
            self.add_load(q, -weight);
            self.entities[e].lag = 0;
            self.place(q, e, false);
            self.queues[q].put(e);
            self.queues[q].entities += 1;
            self.add_load(q, weight);
        }
    }

    /// The thread `e` leaves its queue, and groups that it leaves empty do too
    /// (`dequeue_task_fair`).
    pub(super) fn dequeue_task(&mut self, e: usize, leave: Leave) {
        let (mut e, mut sleeps) = (Some(e), leave != Leave::Move);
        let mut slice = None;
        while let Some(here) = e {
            if !self.dequeue_entity(here, sleeps, sleeps && leave != Leave::Throttle) {
                if here >= self.threads {
                    slice = self.least_slice(self.entities[here].queue);
                }
                break;
            }
            self.moved_groups += u32::from(here >= self.threads);
            let q = self.entities[here].queue;
            self.queues[q].runnable -= 1;
            self.note_load(q);
            if self.is_cut_off(q) {
                return;
            }
            e = self.above(here);
            if self.queues[q].entities > 0 {
                slice = self.least_slice(q);
                if leave != Leave::Move {
                    self.prefer_group(q, e);
                }
                break;
            }
            sleeps = true;
        }
        self.pass_slice_up(e, slice);
        self.count_up(e, -1);
    }

    /// A thread has gone to sleep from `q`, which has more, and stands for which `group` above: its turn is to go on with them.
    fn prefer_group(&mut self, q: usize, group: Option<usize>) {
        if self.eevdf() || self.queues[q].throttles == 0 {
            self.set_next_buddy(group);
        }
    }

    /// EEVDF: one that was marked as gone goes, and groups that it leaves empty.
    pub(super) fn finish_delayed_dequeue(&mut self, e: usize) {
        let mut e = Some(e);
        let mut may_stay = false;
        while let Some(here) = e {
            if !self.dequeue_entity(here, true, may_stay) {
                return;
            }
            if here < self.threads {
                self.unlink_task(here);
            }
            let q = self.entities[here].queue;
            if self.is_cut_off(q) {
                return;
            }
            e = self.above(here);
            if self.queues[q].entities > 0 {
                self.prefer_group(q, e);
                return self.pass_slice_up(e, self.least_slice(q));
            }
            may_stay = true;
        }
    }

    /// The group of `q` gets another weight on this pCPU, if it is not the root.
    pub(super) fn reweigh_group(&mut self, q: usize) {
        if self.queues[q].group != 0 {
            self.reweigh(self.threads + q);
        }
    }

    /// A group's weight on a pCPU is its shares times the part of its load that is there
    /// (`calc_group_shares`), with the loads of this moment.
    fn reweigh(&mut self, e: usize) {
        let Some(own) = self.entities[e].my_queue else { return };
        let (here, group) = (self.queues[own].load, self.queues[own].group);
        let group = &self.groups[group];
        let most = group.shares << self.shift();
        let weight = match group.load {
            0 => most,
            all => (u128::from(most) * u128::from(here) / u128::from(all)) as u64,
        };
        let weight = weight.clamp(LEAST, most);
        if weight != self.entities[e].weight && here > 0 {
            self.set_weight(e, weight);
        }
    }

    /// `reweight_entity`: what an entity is owed in run time stays the same.
    fn set_weight(&mut self, e: usize, weight: u64) {
        let q = self.entities[e].queue;
        let old = self.entities[e].weight;
        if !self.entities[e].queued {
            self.entities[e].weight = weight;
            return;
        }
        if self.queues[q].current == Some(e) {
            self.update_curr(q);
        }
        if self.eevdf() {
            let average = self.average(q);
            let scaled =
                |span: i64| (i128::from(span) * i128::from(old) / i128::from(weight)) as i64;
            let entity = &mut self.entities[e];
            let until_deadline = entity.protected == Some(entity.deadline);
            entity.vruntime = average - scaled(average - entity.vruntime);
            entity.deadline = average + scaled(entity.deadline - average);
            if until_deadline && self.config.version < FairVersion::Linux618 {
                entity.protected = Some(entity.deadline);
            }
        }
        self.entities[e].weight = weight;
        self.add_load(q, weight as i64 - old as i64);
        self.queues[q].advance(&self.entities);
    }

    /// The load of the thread `e` as its pCPU feels it, through all groups (`task_h_load`).
    pub(super) fn load_of(&self, e: usize) -> u64 {
        let mut load = u128::from(self.entities[e].weight);
        let mut here = e;
        while let Some(above) = self.above(here) {
            let inside = self.queues[self.entities[here].queue].load;
            load = load * u128::from(self.entities[above].weight) / u128::from(inside.max(1));
            here = above;
        }
        load as u64
    }
}
