//! Blame for back ends: whose bytes were in front of whose packets at a worker.
//!
//! A packet waits from its coming into the worker's queue, or from a guest's putting it into its ring, until the worker has done the batch
//! that it is in: all of a batch are handed over together. In front of it are all other packets that the worker takes meanwhile, and all of the
//! batch that the worker is at when it comes. Nothing is sampled.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};

use super::packet::Packet;
use crate::ids::Dom;

/// What became of the packets of a class at a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerWaiter {
    /// Packets that came.
    pub packets: u64,
    /// Bytes of those that the worker is done with.
    pub done_bytes: u64,
    /// How long all of them together have waited.
    pub waited: Duration,
    /// How long one has waited at most, of those that wait no more.
    pub longest: Duration,
}

/// A worker.
#[derive(Debug, Clone)]
struct WorkerBlame {
    /// By class.
    waiters: Box<[WorkerWaiter]>,
    waiting: Box<[u32]>,
    /// Bytes in front, by waiter, then by owner.
    bytes: Box<[u64]>,
    /// Bytes of the batch that it is at, by owner.
    batch: Box<[u64]>,
}

/// The queue of an interface, in one direction.
#[derive(Debug, Default)]
struct Line {
    worker: usize,
    class: u8,
    /// When the packets came that wait, first in, first out.
    came: VecDeque<Time>,
}

/// Blame at the workers of a host's back ends.
#[derive(Debug)]
pub struct BackEndBlame {
    /// By domain.
    classes: Vec<u8>,
    count: usize,
    workers: Vec<WorkerBlame>,
    /// Of each queue the packets for the guest, and those from it.
    lines: Vec<[Line; 2]>,
}

impl BackEndBlame {
    /// `classes` has the class of each domain: numbers from 0, without gaps.
    pub(crate) fn new(classes: Vec<u8>) -> Self {
        let count = classes.iter().max().map_or(0, |&most| usize::from(most) + 1);
        BackEndBlame { classes, count, workers: Vec::new(), lines: Vec::new() }
    }

    /// There are so many workers; for each queue its domain, and the workers that serve packets for the guest and from it.
    pub(crate) fn start(
        &mut self,
        workers: usize,
        queues: impl Iterator<Item = (Dom, [usize; 2])>,
    ) {
        let n = self.count;
        let worker = WorkerBlame {
            waiters: vec![WorkerWaiter::default(); n].into(),
            waiting: vec![0; n].into(),
            bytes: vec![0; n * n].into(),
            batch: vec![0; n].into(),
        };
        self.workers = vec![worker; workers];
        let line = |dom: Dom, worker| Line {
            worker,
            class: self.classes[dom.index()],
            came: VecDeque::new(),
        };
        self.lines = queues.map(|(dom, workers)| workers.map(|worker| line(dom, worker))).collect();
    }

    /// A packet has come into queue number `queue`, from the guest (`sends`) or for it.
    pub(crate) fn came(&mut self, queue: usize, sends: bool, now: Time) {
        let line = &mut self.lines[queue][usize::from(sends)];
        line.came.push_back(now);
        let (worker, class) = (&mut self.workers[line.worker], usize::from(line.class));
        worker.waiters[class].packets += 1;
        worker.waiting[class] += 1;
        let row = &mut worker.bytes[class * self.count..][..self.count];
        row.iter_mut().zip(&worker.batch).for_each(|(front, batch)| *front += batch);
    }

    /// Worker number `worker` takes a `batch`: the number of the queue of each packet, all of them from guests (`sends`) or for them.
    pub(crate) fn taken(&mut self, worker: usize, batch: &[(usize, Packet)], sends: bool) {
        let worker = &mut self.workers[worker];
        for (queue, packet) in batch {
            let class = usize::from(self.lines[*queue][usize::from(sends)].class);
            worker.batch[class] += u64::from(packet.bytes);
        }
        for (row, &waiting) in worker.bytes.chunks_exact_mut(self.count).zip(&worker.waiting) {
            let cells = row.iter_mut().zip(&worker.batch);
            cells.for_each(|(front, batch)| *front += u64::from(waiting) * batch);
        }
        for (queue, packet) in batch {
            // None is in front of itself.
            let class = usize::from(self.lines[*queue][usize::from(sends)].class);
            worker.bytes[class * self.count + class] -= u64::from(packet.bytes);
        }
    }

    /// Worker number `worker` has done that batch.
    pub(crate) fn done(
        &mut self,
        worker: usize,
        batch: &[(usize, Packet)],
        sends: bool,
        now: Time,
    ) {
        let worker = &mut self.workers[worker];
        for (queue, packet) in batch {
            let line = &mut self.lines[*queue][usize::from(sends)];
            let class = usize::from(line.class);
            let waiter = &mut worker.waiters[class];
            let waited = line.came.pop_front().map_or(Duration::ZERO, |came| now.since(came));
            waiter.waited += waited;
            waiter.longest = waiter.longest.max(waited);
            waiter.done_bytes += u64::from(packet.bytes);
            worker.waiting[class] -= 1;
        }
        worker.batch.fill(0);
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Whether a worker serves packets for guests, and those from them.
    pub fn serves(&self, worker: usize) -> [bool; 2] {
        [0, 1].map(|way| self.lines.iter().any(|lines| lines[way].worker == worker))
    }

    /// What became of the packets of each class at a worker until `now`.
    pub fn waiters(&self, worker: usize, now: Time) -> Vec<WorkerWaiter> {
        let mut waiters = self.workers[worker].waiters.to_vec();
        for line in self.lines.iter().flatten().filter(|line| line.worker == worker) {
            let waiter = &mut waiters[usize::from(line.class)];
            line.came.iter().for_each(|&came| waiter.waited += now.saturating_since(came));
        }
        waiters
    }

    /// Bytes in front of the packets of class `waiter` at a worker, by the class whose they were.
    pub fn in_front(&self, worker: usize, waiter: usize) -> &[u64] {
        &self.workers[worker].bytes[waiter * self.count..][..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::packet::Course;

    fn packet(bytes: u32) -> Packet {
        Packet { bytes, token: 0, hash: 0, course: Course::In { to: Dom(1) } }
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    /// Two VMs behind one worker, by hand. The driver domain has no interface.
    #[test]
    fn by_hand() {
        let mut blame = BackEndBlame::new(vec![0, 0, 1]);
        blame.start(2, [(Dom(1), [0, 1]), (Dom(2), [0, 1])].into_iter());
        // Three for the first VM, one for the second behind them.
        (0..3).for_each(|us| blame.came(0, false, at(us)));
        blame.came(1, false, at(3));
        let serve = |blame: &mut BackEndBlame, worker, us: u64, batch: &[(usize, Packet)]| {
            blame.taken(worker, batch, worker == 1);
            if us == 10 {
                // Comes while that is being worked on.
                blame.came(1, false, at(12));
            }
            blame.done(worker, batch, worker == 1, at(us + 5));
        };
        serve(&mut blame, 0, 10, &[(0, packet(100)), (0, packet(200))]);
        serve(&mut blame, 0, 20, &[(0, packet(400))]);
        serve(&mut blame, 0, 30, &[(1, packet(50)), (1, packet(60))]);
        // The first VM's: 200, 100 and 300. The second VM's: 300 and 400 each, and each other.
        assert_eq!(blame.in_front(0, 0), [600, 0]);
        assert_eq!(blame.in_front(0, 1), [1_400, 110]);
        let [first, second] = blame.waiters(0, at(35))[..] else { panic!("two classes") };
        assert_eq!((first.packets, first.done_bytes), (3, 700));
        assert_eq!(first.waited, Duration::from_us(15 + 14 + 23));
        let us = Duration::from_us;
        assert_eq!((second.waited, second.longest), (us(32 + 23), us(32)));
        // What they send is the other worker's; one that is never taken waits still.
        blame.came(1, true, at(30));
        blame.came(0, true, at(31));
        serve(&mut blame, 1, 40, &[(0, packet(1_000))]);
        assert_eq!((blame.in_front(1, 0), blame.in_front(1, 1)), (&[0, 0][..], &[1_000, 0][..]));
        let waiters = blame.waiters(1, at(50));
        assert_eq!((waiters[0].waited, waiters[1].waited), (us(14), us(20)));
        assert_eq!((waiters[1].packets, waiters[1].done_bytes, waiters[1].longest), (1, 0, us(0)));
        assert_eq!(blame.in_front(0, 1), [1_400, 110]);
        assert_eq!([0, 1].map(|worker| blame.serves(worker)), [[true, false], [false, true]]);
    }
}
