//! A fair scheduler of tasks on one vCPU: virtual time, in the manner of CFS.
//!
//! Who has run least goes first. A task that wakes starts at most half a period behind
//! the others, and interrupts a process that is ahead of it by more than the granularity
//! (Linux, `kernel/sched/fair.c` 2.6.32 to 6.5: `place_entity`, `wakeup_preempt_entity`). The
//! virtual time of a task passes more slowly the more it weighs.

use lowtail_engine::Duration;

/// A task: an index into the kernel's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub u16);

impl TaskId {
    /// As an index into tables by task.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Period over which each runnable task has its turn (`sched_latency_ns`, 6 ms), and the
/// shortest turn (`sched_min_granularity_ns`, 0.75 ms), on one processor.
pub const PERIOD: Duration = Duration::from_us(6000);
const TURN_MIN: Duration = Duration::from_us(750);
/// By how much a process must be ahead to be interrupted (`sched_wakeup_granularity_ns`, 1 ms).
pub const GRANULARITY: Duration = Duration::from_us(1000);

/// What a task is, for the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskConfig {
    /// The vCPU on which it starts.
    pub cpu: usize,
    /// A process, which can be interrupted by another task anywhere, and no thread of the kernel.
    pub process: bool,
    /// May be moved to an idle vCPU when it wakes.
    pub free: bool,
    /// From waking to running is measured.
    pub measured: bool,
    /// Share of its vCPU, relative to others.
    pub weight: u32,
}

/// Weight of a task whose nice value is 0 (`NICE_0_LOAD`).
pub const WEIGHT: u32 = 1024;
/// Weight of one with -20, the most there is (`sched_prio_to_weight`).
pub const WEIGHT_MOST: u32 = 88_761;

impl TaskConfig {
    /// A process that may be moved.
    pub const PROCESS: TaskConfig =
        TaskConfig { cpu: 0, process: true, free: true, measured: false, weight: WEIGHT };

    /// A thread of the kernel that stays on vCPU number `cpu`.
    pub fn thread(cpu: usize) -> Self {
        TaskConfig { cpu, process: false, free: false, measured: false, weight: WEIGHT }
    }
}

/// The run queue of one vCPU.
#[derive(Debug, Default)]
pub struct FairQueue {
    /// Who waits, with their virtual times.
    waiting: Vec<(Duration, TaskId)>,
    /// Never goes back.
    least: Duration,
}

impl FairQueue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Where a task that had `vtime` when it fell asleep starts when it wakes.
    pub fn place(&self, vtime: Duration) -> Duration {
        vtime.max(self.least.saturating_sub(PERIOD / 2))
    }

    /// What `vtime` in the queue `from` is in this one.
    pub fn moved(&self, from: &FairQueue, vtime: Duration) -> Duration {
        (vtime + self.least).saturating_sub(from.least)
    }

    /// Up to `tasks` tasks may wait.
    pub fn make_room(&mut self, tasks: usize) {
        self.waiting.reserve(tasks);
    }

    /// `task` waits.
    pub fn insert(&mut self, task: TaskId, vtime: Duration) {
        self.waiting.push((vtime, task));
    }

    /// Who waits, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = TaskId> {
        self.waiting.iter().map(|&(_, task)| task)
    }

    /// `task` waits no longer.
    pub fn remove(&mut self, task: TaskId) {
        self.waiting.retain(|&(_, waits)| waits != task);
    }

    /// Who waits with the least virtual time; of equals, the one that came first.
    pub fn first(&self) -> Option<(Duration, TaskId)> {
        self.waiting.iter().copied().min_by_key(|&(vtime, _)| vtime)
    }

    /// Takes that one out.
    pub fn take(&mut self) -> Option<(Duration, TaskId)> {
        let at = (0..self.waiting.len()).min_by_key(|&i| self.waiting[i].0)?;
        let first = self.waiting.remove(at);
        self.least = self.least.max(first.0);
        Some(first)
    }

    /// The one that runs has come to `vtime`.
    pub fn advance(&mut self, vtime: Duration) {
        let first = self.first().map_or(vtime, |(first, _)| first.min(vtime));
        self.least = self.least.max(first);
    }

    /// How long a turn is with the others that wait now.
    pub fn turn(&self) -> Duration {
        (PERIOD / (self.len() as u64 + 1)).max(TURN_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has run for long on a busy vCPU is not behind on one that has idled: it keeps its
    /// distance of 2 ms.
    #[test]
    fn a_move_keeps_the_distance() {
        let ms = Duration::from_ms;
        let (mut old, mut new) = (FairQueue::default(), FairQueue::default());
        old.advance(ms(100_000));
        new.advance(ms(10));
        assert_eq!(new.moved(&old, ms(100_002)), ms(12));
        assert_eq!(new.moved(&old, ms(99_998)), ms(8));
        assert_eq!(new.moved(&old, ms(0)), ms(0));
    }

    /// Two loops and one that sleeps: each loop gets half, the sleeper starts near the front.
    #[test]
    fn least_first() {
        let ms = Duration::from_ms;
        let mut queue = FairQueue::default();
        queue.insert(TaskId(0), ms(20));
        queue.insert(TaskId(1), ms(10));
        queue.insert(TaskId(2), ms(10));
        assert_eq!(queue.take(), Some((ms(10), TaskId(1))));
        assert_eq!(queue.turn(), ms(2));
        queue.advance(ms(13));
        // Task 2 still waits at 10 ms, so a sleeper starts half a period before that.
        assert_eq!(queue.place(Duration::ZERO), ms(7));
        assert_eq!(queue.place(ms(12)), ms(12));
        assert_eq!((queue.len(), queue.is_empty()), (2, false));
    }
}
