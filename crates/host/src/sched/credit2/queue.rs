//! A run queue of credit2: the pCPUs that share it, and who waits, sorted by credit.

use super::unit::Unit;
use crate::cpu_set::CpuSet;
use crate::ids::{Pcpu, Vcpu};

/// Xen's `struct csched2_runqueue_data`.
#[derive(Debug)]
pub(super) struct RunQueue {
    /// The pCPUs that it serves.
    pub(super) active: CpuSet,
    /// Those that run nobody.
    pub(super) idle: CpuSet,
    /// Those that have been tickled and have not been to their scheduler since.
    pub(super) tickled: CpuSet,
    /// Runnable vCPUs that do not run, most credit first.
    pub(super) waiting: Vec<Vcpu>,
    /// All vCPUs that belong here.
    pub(super) members: Vec<Vcpu>,
    /// The largest weight of a member; it burns at the speed of the clock.
    pub(super) max_weight: i64,
    /// Runnable vCPUs, running ones included.
    pub(super) load: i64,
    /// Its moving average, 2^18 being 1.
    pub(super) avgload: i64,
    /// The same with the expected effect of moves already in it.
    pub(super) b_avgload: i64,
    pub(super) load_updated: i64,
    /// The pCPU picked last, for going round.
    pub(super) pick_bias: Pcpu,
}

impl RunQueue {
    pub(super) fn new(active: CpuSet) -> Self {
        RunQueue {
            active,
            idle: active,
            tickled: CpuSet::EMPTY,
            waiting: Vec::with_capacity(64),
            members: Vec::with_capacity(64),
            max_weight: 1,
            load: 0,
            avgload: 0,
            b_avgload: 0,
            load_updated: 0,
            // Going round starts at the first.
            pick_bias: Pcpu(127),
        }
    }

    /// Puts `v` in, behind those with as much credit.
    pub(super) fn insert(&mut self, units: &mut [Unit], v: Vcpu) {
        debug_assert!(!units[v.index()].on_queue);
        units[v.index()].on_queue = true;
        let credit = units[v.index()].credit;
        let place = self.waiting.iter().position(|w| credit > units[w.index()].credit);
        self.waiting.insert(place.unwrap_or(self.waiting.len()), v);
    }

    pub(super) fn remove(&mut self, units: &mut [Unit], v: Vcpu) {
        debug_assert!(units[v.index()].on_queue);
        units[v.index()].on_queue = false;
        self.waiting.retain(|&w| w != v);
    }

    /// `update_max_weight`.
    pub(super) fn update_max_weight(&mut self, units: &[Unit]) {
        self.max_weight = self.members.iter().map(|v| units[v.index()].weight).max().unwrap_or(1);
    }

    pub(super) fn check(&self, units: &[Unit]) -> Result<(), String> {
        let credit = |v: &Vcpu| units[v.index()].credit;
        if let Some(pair) = self.waiting.windows(2).find(|w| credit(&w[0]) < credit(&w[1])) {
            return Err(format!("{:?} waits before {:?} with less credit", pair[0], pair[1]));
        }
        match self.waiting.iter().find(|v| !units[v.index()].on_queue) {
            Some(v) => Err(format!("{v:?} is in the queue and does not know")),
            None => Ok(()),
        }
    }
}
