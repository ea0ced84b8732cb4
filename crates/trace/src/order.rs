//! One order in time out of many pCPUs' queues, each of which has its own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::tables::ByPcpu;

/// Something that happened on a pCPU.
pub(crate) trait Happened: Copy {
    /// When.
    fn at(&self) -> u64;
    /// Where.
    fn pcpu(&self) -> u16;
}

/// Queues of what has been read, handed out in order of time (then of pCPU) as far as it is known that nothing earlier
/// can follow.
///
/// Each pCPU's items have to come in order. With more than a maximum queued, the earliest half is handed out
/// even so: memory is bounded, and what then comes too late is the caller's to notice.
#[derive(Debug)]
pub(crate) struct Order<T> {
    queues: ByPcpu<VecDeque<T>>,
    /// The head of every queue that has one.
    heads: BinaryHeap<Reverse<(u64, u16)>>,
    queued: usize,
    queue_max: usize,
    /// All up to here has been read.
    watermark: Option<u64>,
    /// Hand out until no more than this many are queued.
    drain_to: usize,
}

impl<T: Happened> Order<T> {
    /// Nothing yet; at most `queue_max` items are to wait.
    pub(crate) fn new(queue_max: usize) -> Self {
        Order {
            queues: ByPcpu::default(),
            heads: BinaryHeap::new(),
            queued: 0,
            queue_max,
            watermark: None,
            drain_to: usize::MAX,
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Nothing earlier than this, nor of this time, will be pushed; `None`: not known.
    pub(crate) fn complete_to(&mut self, watermark: Option<u64>) {
        self.watermark = watermark;
    }

    pub(crate) fn push(&mut self, item: T) {
        let pcpu = item.pcpu();
        let queue = self.queues.get_or_insert_with(pcpu, VecDeque::new);
        if queue.is_empty() {
            self.heads.push(Reverse((item.at(), pcpu)));
        }
        queue.push_back(item);
        self.queued += 1;
        if self.queued > self.queue_max {
            self.drain_to = self.queue_max / 2;
        }
    }

    /// The next record in order of time.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let &Reverse((at, pcpu)) = self.heads.peek()?;
        if self.queued <= self.drain_to {
            self.drain_to = usize::MAX;
        }
        if self.watermark.is_none_or(|mark| at > mark) && self.drain_to == usize::MAX {
            return None;
        }
        self.heads.pop();
        let queue = self.queues.get_mut(pcpu)?;
        let item = queue.pop_front()?;
        self.queued -= 1;
        if let Some(next) = queue.front() {
            self.heads.push(Reverse((next.at(), pcpu)));
        }
        Some(item)
    }
}
