//! A heap of event keys, the earliest on top: 4-ary, of 16-byte keys, so that the four children of a node are in two cache lines at
//! most.

use std::hint::select_unpredictable;

use crate::order::EventKey;

/// Children of a node.
const ARITY: usize = 4;

/// Keys, of which the earliest is known.
#[derive(Debug, Clone)]
pub(crate) struct Heap(Vec<EventKey>);

impl Heap {
    /// An empty one, with room for so many.
    pub(crate) fn with_capacity(room: usize) -> Self {
        Heap(Vec::with_capacity(room))
    }

    /// Keys in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The earliest key.
    #[inline]
    pub(crate) fn first(&self) -> Option<EventKey> {
        self.0.first().copied()
    }

    #[inline]
    pub(crate) fn push(&mut self, key: EventKey) {
        self.0.push(key);
        self.sift_up(self.0.len() - 1);
    }

    /// Removes the earliest key.
    #[inline]
    pub(crate) fn remove_first(&mut self) {
        let Some(last) = self.0.pop() else { return };
        if self.0.is_empty() {
            return;
        }
        // The last key is a leaf and nearly always belongs near the bottom again:
        // walk the hole all the way down first, then let the key rise. This saves
        // the comparison against it on each level.
        let hole = self.sink_hole();
        self.0[hole] = last;
        self.sift_up(hole);
    }

    /// Keeps the keys that are `wanted`.
    pub(crate) fn retain(&mut self, wanted: impl Fn(EventKey) -> bool) {
        self.0.retain(|&key| wanted(key));
        for parent in (0..self.0.len().div_ceil(ARITY)).rev() {
            self.sift_down(parent);
        }
    }

    /// Moves the hole at the root down along the smallest children; returns where it ends.
    #[inline]
    fn sink_hole(&mut self) -> usize {
        let heap = &mut self.0[..];
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let Some(&[a, b, c, d]) =
                heap.get(first..first + ARITY).and_then(|four| four.as_array())
            else {
                break;
            };
            // Which one is least cannot be foreseen, and the next level waits for it: no jumps, and nothing is read twice.
            let (left, at_left) = select_unpredictable(b < a, (b, 1), (a, 0));
            let (right, at_right) = select_unpredictable(d < c, (d, 3), (c, 2));
            let (best, at) = select_unpredictable(right < left, (right, at_right), (left, at_left));
            heap[hole] = best;
            hole = first + at;
        }
        let first = hole * ARITY + 1;
        if first < heap.len() {
            let best = (first..heap.len()).min_by_key(|&i| heap[i]).unwrap_or(first);
            heap[hole] = heap[best];
            hole = best;
        }
        hole
    }

    #[inline]
    fn sift_up(&mut self, mut child: usize) {
        let heap = &mut self.0[..];
        let key = heap[child];
        while child > 0 {
            let parent = (child - 1) / ARITY;
            if heap[parent] <= key {
                break;
            }
            heap[child] = heap[parent];
            child = parent;
        }
        heap[child] = key;
    }

    fn sift_down(&mut self, mut parent: usize) {
        loop {
            let first = parent * ARITY + 1;
            let children = first..(first + ARITY).min(self.0.len());
            let Some(best) = children.min_by_key(|&i| self.0[i]) else { return };
            if self.0[parent] <= self.0[best] {
                return;
            }
            self.0.swap(parent, best);
            parent = best;
        }
    }
}
