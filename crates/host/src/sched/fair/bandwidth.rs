//! Limits on run time: a group's pool, what pCPUs fetch from it, throttling and its end.

use lowtail_engine::{Duration, Time};

use super::state::{Alarm, EnqueueReason, Fair};
use super::version::FairVersion;
use crate::cgroup::CgroupStats;

/// Kept on a pCPU when the group has nothing to do there any more (`min_cfs_rq_runtime`), in ns.
const KEPT: i64 = 1_000_000;
/// What was given back is shared out after so long (`cfs_bandwidth_slack_period`), in ns.
const SLACK: u64 = 5_000_000;
/// Not so close before the next period (`min_bandwidth_expiration`), in ns.
const CLOSE: u64 = 2_000_000;

impl Fair {
    /// The queue `q` has run for so long (`account_cfs_rq_runtime`).
    pub(super) fn account_runtime(&mut self, q: usize, ran: u64) {
        if !self.queues[q].limited.on {
            return;
        }
        self.queues[q].limited.remaining -= ran as i64;
        self.expire(q);
        let limited = &self.queues[q].limited;
        if limited.remaining > 0 || limited.throttled.is_some() {
            return;
        }
        if !self.fetch(q, self.bandwidth_slice()) && self.running(q).is_some() {
            self.resched(q);
        }
    }

    fn bandwidth_slice(&self) -> i64 {
        self.config.bandwidth_slice.as_ns() as i64
    }

    /// What was fetched in an earlier period is lost (`expire_cfs_rq_runtime`).
    fn expire(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        let Some(pool) = &self.groups[queue.group].pool else { return };
        if self.config.expire_slices
            && queue.limited.remaining > 0
            && queue.limited.period != pool.count
        {
            queue.limited.remaining = 0;
        }
    }

    /// Fetches run time from the pool, up to `target`; whether there is some now
    /// (`assign_cfs_rq_runtime`).
    fn fetch(&mut self, q: usize, target: i64) -> bool {
        let group = self.queues[q].group;
        self.start_period(group);
        let limited = &mut self.queues[q].limited;
        if let Some(pool) = &mut self.groups[group].pool {
            if pool.runtime > 0 {
                let amount = pool.runtime.min(target - limited.remaining);
                pool.runtime -= amount;
                pool.idle = false;
                limited.remaining += amount;
            }
            limited.period = pool.count;
        }
        limited.remaining > 0
    }

    /// Starts the period timer if it has stopped (`start_cfs_bandwidth`); before 4.3 that refills
    /// the pool (77a4d1a1b9a1).
    fn start_period(&mut self, group: usize) {
        let refills = self.config.version == FairVersion::Linux2639;
        let now = self.now;
        let Some(pool) = &mut self.groups[group].pool else { return };
        if pool.active {
            return;
        }
        pool.active = true;
        if refills {
            pool.refill();
        }
        if pool.end <= now {
            pool.end += ((now - pool.end) / pool.period + 1) * pool.period;
        }
        let end = pool.end;
        self.arm(Alarm::Period(group), end);
    }

    /// A group's period is over (`do_sched_cfs_period_timer`).
    pub(super) fn period_over(&mut self, group: usize) {
        let Some(pool) = &mut self.groups[group].pool else { return };
        pool.end += pool.period;
        pool.stats.periods += 1;
        let throttled = !pool.throttled.is_empty();
        if pool.idle && !throttled {
            // Since 5.14 it is refilled before it stops.
            if self.config.version >= FairVersion::Linux61 {
                pool.refill();
            }
            pool.active = false;
            return;
        }
        pool.refill();
        pool.idle = !throttled;
        if throttled {
            pool.stats.throttled_periods += 1;
        }
        let end = pool.end;
        self.arm(Alarm::Period(group), end);
        self.distribute(group);
    }

    /// Throttled queues go on, as far as the pool has what they have overrun
    /// (`distribute_cfs_runtime`).
    fn distribute(&mut self, group: usize) {
        let mut at = 0;
        loop {
            let Some(pool) = &mut self.groups[group].pool else { return };
            let Some(&q) = pool.throttled.get(at) else { return };
            if pool.runtime <= 0 {
                return;
            }
            let limited = &mut self.queues[q].limited;
            let amount = (1 - limited.remaining).min(pool.runtime);
            pool.runtime -= amount;
            limited.remaining += amount;
            limited.period = pool.count;
            if limited.remaining > 0 {
                pool.throttled.remove(at);
                self.unthrottle(q);
            } else {
                at += 1;
            }
        }
    }

    /// The queue `q` has got its first entity (`check_enqueue_throttle`).
    pub(super) fn check_enqueue_throttle(&mut self, q: usize) {
        let queue = &self.queues[q];
        if queue.limited.on && queue.current.is_none() && queue.limited.throttled.is_none() {
            self.account_runtime(q, 0);
            if self.queues[q].limited.remaining <= 0 {
                self.throttle(q);
            }
        }
    }

    /// Throttles `q` if it has nothing left (`check_cfs_rq_runtime`); whether it is throttled.
    pub(super) fn check_limit(&mut self, q: usize) -> bool {
        let limited = &self.queues[q].limited;
        if !limited.on || limited.remaining > 0 {
            return false;
        }
        limited.throttled.is_some() || self.throttle(q)
    }

    /// `throttle_cfs_rq`.
    fn throttle(&mut self, q: usize) -> bool {
        // Since 5.7 it looks once more whether there is some (e98fa02c4f2e).
        if self.config.version >= FairVersion::Linux61 && self.fetch(q, 1) {
            return false;
        }
        let (group, now) = (self.queues[q].group, self.now);
        if !self.throttles_threads() {
            self.leave_tree(q);
        }
        self.queues[q].limited.throttled = Some(now);
        self.count_throttles(q, 1);
        self.begin_pause(q);
        if let Some(pool) = &mut self.groups[group].pool {
            pool.throttled.push(q);
        }
        self.start_period(group);
        true
    }

    /// The group of `q` goes, and groups that it leaves empty.
    fn leave_tree(&mut self, q: usize) {
        let mut e = Some(self.threads + q);
        let (runnable, mut leaves) = (self.queues[q].runnable, true);
        while let Some(here) = e {
            if !self.entities[here].queued {
                break;
            }
            let above = self.entities[here].queue;
            if leaves {
                self.dequeue_entity(here, true, false);
            } else {
                self.reweigh_group(self.threads_queue(here));
            }
            self.queues[above].runnable -= runnable;
            self.note_load(above);
            leaves &= self.queues[above].entities == 0;
            e = self.above(here);
        }
    }

    /// The queue that the group `e` stands for.
    fn threads_queue(&self, e: usize) -> usize {
        e - self.threads
    }

    /// `unthrottle_cfs_rq`.
    fn unthrottle(&mut self, q: usize) {
        let (group, now) = (self.queues[q].group, self.now);
        let limited = &mut self.queues[q].limited;
        let Some(mut since) = limited.throttled.take() else { return };
        let pause = limited.pause.take();
        if self.throttles_threads() {
            since = pause.unwrap_or(now);
        }
        if let Some(pool) = &mut self.groups[group].pool {
            let stats = &mut pool.stats;
            stats.throttled += Duration::from_ns(now - since);
            let pause = pause.map_or(Duration::ZERO, |since| Duration::from_ns(now - since));
            stats.longest_pause = stats.longest_pause.max(pause);
        }
        self.count_throttles(q, -1);
        if self.throttles_threads() {
            return self.leave_limbo(q);
        }
        if self.queues[q].entities == 0 {
            return;
        }
        let runnable = self.queues[q].runnable;
        let mut e = Some(self.threads + q);
        while let Some(here) = e {
            let above = self.entities[here].queue;
            if !self.entities[here].queued {
                self.enqueue_entity(here, EnqueueReason::Wake);
            } else {
                if self.entities[here].delayed {
                    self.requeue_delayed(here);
                }
                self.reweigh_group(self.threads_queue(here));
            }
            self.queues[above].runnable += runnable;
            self.note_load(above);
            if self.queues[above].limited.throttled.is_some() {
                self.begin_pause(above);
                return;
            }
            e = self.above(here);
        }
        let p = self.queues[q].pcpu;
        if self.cpus[p].current.is_none() && self.queues[p].runnable > 0 {
            self.resched(q);
        }
    }

    /// `q` and all queues below it on its pCPU are throttled once more, or once less.
    fn count_throttles(&mut self, q: usize, more: i32) {
        let (pcpu, group) = (self.queues[q].pcpu, self.queues[q].group);
        for at in 0..self.groups[group].below.len() {
            let below = self.groups[group].below[at];
            let queue = &mut self.queues[below * self.cpus.len() + pcpu];
            queue.throttles = queue.throttles.saturating_add_signed(more);
        }
    }

    /// A thread in the throttled `q` could run from now on.
    pub(super) fn begin_pause(&mut self, q: usize) {
        let cut_off = self.is_cut_off(q);
        let queue = &mut self.queues[q];
        if cut_off {
            queue.limited.pause = match queue.runnable {
                0 => None,
                _ => queue.limited.pause.or(Some(self.now)),
            };
        }
    }

    /// The last entity has left `q`: all but a millisecond goes back (`return_cfs_rq_runtime`).
    pub(super) fn give_back(&mut self, q: usize) {
        let queue = &self.queues[q];
        if !queue.limited.on || queue.entities > 0 {
            return;
        }
        let spare = queue.limited.remaining - KEPT;
        let (group, fetched) = (queue.group, queue.limited.period);
        let slice = self.bandwidth_slice();
        let (expires, again) =
            (self.config.expire_slices, self.config.version < FairVersion::Linux54);
        let now = self.now;
        let Some(pool) = &mut self.groups[group].pool else { return };
        if spare <= 0 {
            return;
        }
        self.queues[q].limited.remaining -= spare;
        if expires && fetched != pool.count {
            return;
        }
        pool.runtime += spare;
        let close = pool.active && pool.end.saturating_sub(now) < SLACK + CLOSE;
        if pool.runtime > slice && !pool.throttled.is_empty() && !close {
            // Since 5.5 a timer that runs is left alone (66567fcbaecac).
            if again || !pool.slack {
                pool.slack = true;
                self.arm(Alarm::Slack(group), now + SLACK);
            }
        }
    }

    /// What was given back is shared out (`do_sched_cfs_slack_timer`).
    pub(super) fn slack_over(&mut self, group: usize) {
        let (slice, now) = (self.bandwidth_slice(), self.now);
        let Some(pool) = &mut self.groups[group].pool else { return };
        pool.slack = false;
        let close = pool.active && pool.end.saturating_sub(now) < CLOSE;
        if !close && pool.runtime > slice {
            self.distribute(group);
        }
    }

    /// What has happened to a group, up to `now`.
    pub(super) fn stats_of(&self, group: usize, now: Time) -> Option<CgroupStats> {
        let pool = self.groups.get(group)?.pool.as_ref()?;
        let mut stats = pool.stats;
        for q in &pool.throttled {
            if let Some(since) = self.queues[*q].limited.pause {
                let pause = Duration::from_ns(now.as_ns().saturating_sub(since));
                stats.longest_pause = stats.longest_pause.max(pause);
            }
        }
        Some(stats)
    }
}
