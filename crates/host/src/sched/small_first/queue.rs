//! Who waits, and who of them goes first.
//!
//! vCPUs that may run on the same pCPUs wait in the same queue, so that a pCPU finds who is first without passing anybody whom it may not
//! run: as threads do in `bpf/vcpu_mask.h`. In a queue small ones and large ones are in heaps of their own, by the order of the rule
//! (`lt_before`). All of that order but one thing stays as it is while a vCPU waits, or changes with an event: who has waited too
//! long goes before all others, which is found by a third heap, of when that will be.

use std::cmp::Ordering;

use lowtail_policy::{Class, LtVcpu, LtVm};

use super::heap::{Heap, Places};
use crate::cpu_set::CpuSet;
use crate::host_state::HostState;
use crate::ids::{Pcpu, Vcpu};

/// So many of a queue are asked whether they may interrupt somebody, as in `bpf/vcpu_queue.h`.
const LOOK: usize = 16;

/// What of the order comes first. As wide as what comes behind it in a [`Key`], which is copied in whole registers then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
enum Rank {
    /// It has waited for longer than a vCPU should.
    Late,
    Small,
    Large,
}

/// By what those who wait are ordered: `lt_before`, and of two that are alike who came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    rank: Rank,
    /// Of small ones when they are due, of large ones their VM's virtual time.
    key_ns: u64,
    queued_ns: u64,
    came: u64,
}

impl Key {
    fn new(unit: &LtVcpu, vm: &LtVm, came: u64) -> Self {
        let (rank, key_ns) = match unit.class() {
            Class::Small => (Rank::Small, unit.due()),
            Class::Large => (Rank::Large, vm.vtime_ns),
        };
        Key { rank, key_ns, queued_ns: unit.queued_ns, came }
    }

    fn late(self) -> Self {
        Key { rank: Rank::Late, key_ns: 0, ..self }
    }

    /// All fields in their order, as two integers: a comparison of keys is one of integers, without jumps that nobody could foresee.
    #[inline]
    fn order(self) -> (u128, u128) {
        let pair = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        (pair(self.rank as u64, self.key_ns), pair(self.queued_ns, self.came))
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.order() < other.order()
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.order() <= other.order()
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// Those who may run on the same pCPUs.
#[derive(Debug)]
struct Queue {
    small: Heap<Key>,
    large: Heap<Key>,
    /// Of those who have not waited too long yet: from when on they have.
    deadlines: Heap<u64>,
}

/// A walk through the first [`LOOK`] of a heap in their order.
pub(super) struct Walk {
    queue: u16,
    is_small: bool,
    /// Where those are in the heap of whom one is next: behind each that has come are two.
    ahead: [u32; LOOK + 1],
    n: usize,
    left: usize,
}

impl Walk {
    fn next(&mut self, heap: &[(Key, Vcpu)]) -> Option<(Key, Vcpu)> {
        if self.n == 0 || self.left == 0 {
            return None;
        }
        let ahead = &self.ahead[..self.n];
        let is_before = |i: usize, j: usize| heap[ahead[i] as usize].0 < heap[ahead[j] as usize].0;
        let next = (1..self.n).fold(0, |next, i| if is_before(i, next) { i } else { next });
        let at = ahead[next] as usize;
        self.left -= 1;
        self.n -= 1;
        self.ahead[next] = self.ahead[self.n];
        for below in [2 * at + 1, 2 * at + 2] {
            if below < heap.len() {
                self.ahead[self.n] = below as u32;
                self.n += 1;
            }
        }
        Some(heap[at])
    }
}

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Queues {
    all: Vec<Queue>,
    /// The queue of each vCPU.
    of: Vec<u16>,
    /// The queues of each pCPU, from `starts` of it up to `starts` of the next.
    here: Vec<u16>,
    starts: Vec<u32>,
    /// Where each vCPU is among the small or the large ones, ...
    places: Places,
    /// ... which of these, ...
    is_small: Vec<bool>,
    /// ... and where it is in the heap of deadlines.
    deadline_places: Places,
    /// So many have come.
    came: u64,
}

impl Queues {
    /// Empty ones for the vCPUs of `host`.
    pub(super) fn new(host: &HostState) -> Self {
        let mut sets: Vec<(CpuSet, usize)> = Vec::new();
        let mut of = Vec::new();
        for state in &host.vcpus {
            let known = sets.iter().position(|(allowed, _)| *allowed == *state.hard());
            let queue = known.unwrap_or(sets.len());
            if known.is_none() {
                sets.push((*state.hard(), 0));
            }
            sets[queue].1 += 1;
            of.push(queue as u16);
        }
        let (mut here, mut starts) = (Vec::new(), vec![0]);
        for p in 0..host.current.len() {
            let with_p = (0..sets.len()).filter(|&queue| sets[queue].0.has(Pcpu(p as u16)));
            here.extend(with_p.map(|queue| queue as u16));
            starts.push(here.len() as u32);
        }
        let all = sets.into_iter().map(|(_, n)| Queue {
            small: Heap::new(n),
            large: Heap::new(n),
            deadlines: Heap::new(n),
        });
        let n = host.vcpus.len();
        Queues {
            all: all.collect(),
            of,
            here,
            starts,
            places: Places::new(n),
            is_small: vec![false; n],
            deadline_places: Places::new(n),
            came: 0,
        }
    }

    /// Whether `v` waits.
    pub(super) fn has(&self, v: Vcpu) -> bool {
        self.places.has(v)
    }

    /// `v` begins to wait.
    pub(super) fn push(&mut self, v: Vcpu, unit: &LtVcpu, vm: &LtVm) {
        self.came += 1;
        let key = Key::new(unit, vm, self.came);
        let queue = &mut self.all[usize::from(self.of[v.index()])];
        self.is_small[v.index()] = key.rank == Rank::Small;
        queue.heap_mut(key.rank == Rank::Small).push(&mut self.places, key, v);
        // `lt_overdue`.
        let late = key.queued_ns.saturating_add(vm.wait_max_ns).saturating_add(1);
        queue.deadlines.push(&mut self.deadline_places, late, v);
    }

    /// `v` waits no longer, if it did.
    pub(super) fn remove(&mut self, v: Vcpu) {
        if !self.has(v) {
            return;
        }
        let queue = &mut self.all[usize::from(self.of[v.index()])];
        queue.heap_mut(self.is_small[v.index()]).remove(&mut self.places, v);
        if self.deadline_places.has(v) {
            queue.deadlines.remove(&mut self.deadline_places, v);
        }
    }

    /// The class of `v` or the virtual time of its VM has changed; nothing if it does not wait.
    pub(super) fn update(&mut self, v: Vcpu, unit: &LtVcpu, vm: &LtVm) {
        if !self.has(v) {
            return;
        }
        let was_small = self.is_small[v.index()];
        let queue = &mut self.all[usize::from(self.of[v.index()])];
        let old = queue.heap(was_small).key(&self.places, v);
        let key = Key::new(unit, vm, old.came);
        let is_small = key.rank == Rank::Small;
        let key = if old.rank == Rank::Late { key.late() } else { key };
        if is_small == was_small {
            if key != old {
                queue.heap_mut(is_small).change(&mut self.places, key, v);
            }
            return;
        }
        queue.heap_mut(was_small).remove(&mut self.places, v);
        self.is_small[v.index()] = is_small;
        queue.heap_mut(is_small).push(&mut self.places, key, v);
    }

    /// The first of those who may run on `p`.
    pub(super) fn first(&mut self, p: Pcpu, now_ns: u64) -> Option<Vcpu> {
        let mut first = None;
        for i in self.range(p) {
            let queue = self.queue(i, now_ns);
            let ours = [queue.small.first(), queue.large.first()];
            first = ours.into_iter().flatten().chain(first).min();
        }
        first.map(|(_, v)| v)
    }

    /// So many queues have those who may run on `p`, as numbers for the next functions.
    pub(super) fn range(&self, p: Pcpu) -> std::ops::Range<usize> {
        self.starts[p.index()] as usize..self.starts[p.index() + 1] as usize
    }

    /// A walk through the small or the large ones of a queue, who goes first coming first.
    pub(super) fn walk(&mut self, i: usize, is_small: bool, now_ns: u64) -> Walk {
        let any = self.queue(i, now_ns).heap(is_small).first().is_some();
        Walk {
            queue: self.here[i],
            is_small,
            ahead: [0; LOOK + 1],
            n: usize::from(any),
            left: LOOK,
        }
    }

    /// The next one of a walk, if there is one; the queue must not have changed.
    pub(super) fn next(&self, walk: &mut Walk) -> Option<(Key, Vcpu)> {
        let heap = self.all[usize::from(walk.queue)].heap(walk.is_small);
        walk.next(heap.all())
    }

    /// A queue, in which those that have waited too long by `now_ns` are known to have.
    fn queue(&mut self, i: usize, now_ns: u64) -> &Queue {
        let queue = &mut self.all[usize::from(self.here[i])];
        while let Some((at, v)) = queue.deadlines.first()
            && at <= now_ns
        {
            queue.deadlines.remove(&mut self.deadline_places, v);
            let heap = queue.heap_mut(self.is_small[v.index()]);
            let key = heap.key(&self.places, v).late();
            heap.change(&mut self.places, key, v);
        }
        queue
    }

    /// What is wrong with the bookkeeping of `v`, and with all heaps after the last one.
    pub(super) fn check(&self, v: Vcpu, unit: &LtVcpu, vm: &LtVm) -> Result<(), String> {
        if self.has(v) {
            let queue = &self.all[usize::from(self.of[v.index()])];
            let key = queue.heap(self.is_small[v.index()]).key(&self.places, v);
            let right = Key::new(unit, vm, key.came);
            let is_late = !self.deadline_places.has(v);
            let right = if is_late { right.late() } else { right };
            let class = (unit.class() == Class::Small) == self.is_small[v.index()];
            if key != right || !class {
                return Err(format!("{v:?} waits as {key:?}, and is {right:?}"));
            }
        }
        if v.index() + 1 == self.of.len() {
            for queue in &self.all {
                queue.small.check(&self.places)?;
                queue.large.check(&self.places)?;
                queue.deadlines.check(&self.deadline_places)?;
            }
        }
        Ok(())
    }
}

impl Queue {
    fn heap(&self, is_small: bool) -> &Heap<Key> {
        if is_small { &self.small } else { &self.large }
    }

    fn heap_mut(&mut self, is_small: bool) -> &mut Heap<Key> {
        if is_small { &mut self.small } else { &mut self.large }
    }
}

impl Key {
    /// Whether it has waited too long.
    pub(super) fn is_late(self) -> bool {
        self.rank == Rank::Late
    }
}
