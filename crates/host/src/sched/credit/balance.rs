//! Who runs where: placing, tickling, moving and stealing vCPUs.

use lowtail_engine::Duration;

use super::config::CreditVersion;
use super::state::{Credit, Priority};
use crate::cpu_set::CpuSet;
use crate::host_state::{HostState, VcpuState};
use crate::ids::{Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;

/// How long a pCPU waits between two searches for work, today (`load-balance-ratelimit`).
const SEARCH_LIMIT: Duration = Duration::from_ms(1);

/// Where `state` may run in this step of a two-step search: what it prefers, then all
/// (`affinity_balance_cpumask`). `None` if it has no preference to look at.
fn affinity(state: &VcpuState, soft_step: bool) -> Option<CpuSet> {
    match soft_step {
        true => state.has_soft_affinity().then(|| state.soft().and(*state.hard())),
        false => Some(*state.hard()),
    }
}

impl Credit {
    /// Gives each vCPU its first pCPU: an allowed one, preferred if there are such, with
    /// the fewest vCPUs so far.
    pub(super) fn place(&self, host: &mut HostState) {
        let mut population = vec![0u32; self.runqs.len()];
        for state in &mut host.vcpus {
            let preferred = affinity(state, true).filter(|_| self.soft);
            let allowed = preferred.unwrap_or_else(|| *state.hard());
            if let Some(p) = allowed.iter().min_by_key(|p| population[p.index()]) {
                population[p.index()] += 1;
                state.processor = p;
            }
        }
    }

    /// Whether `new` may take the pCPU from somebody of priority `current`: strictly higher
    /// priorities may. That boost does not preempt boost is what "Small is Better" changes.
    fn outranks(&self, new: Priority, current: Priority) -> bool {
        let boosts = new == Priority::Boost && current == Priority::Boost;
        new > current || boosts && self.config.boost_preempts_boost
    }

    /// Makes one pCPU (2007: several) look at its queue because `v` waits (`__runq_tickle`).
    /// Its short cut for a vCPU pinned to an idle pCPU leads to the same answer.
    pub(super) fn tickle(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        if self.is(CreditVersion::Xen2007) {
            self.tickle_2007(cx, v);
            return;
        }
        let p = cx.vcpu(v).processor;
        let current = cx.current(p);
        let outranks = self.outranks(self.units[v.index()].priority, self.priority(current));
        let target = match current {
            None => Some(p),
            Some(_) if self.idlers.is_empty() => outranks.then_some(p),
            Some(current) => match self.suitable_idlers(cx.vcpu(v)) {
                Some(idlers) => {
                    // Someone who wakes has cold caches anyway: leave the current one be.
                    self.last_tickled = idlers.next_after(self.last_tickled).unwrap_or(p);
                    Some(self.last_tickled)
                }
                None if outranks => {
                    self.kick_away(cx, current);
                    Some(p)
                }
                None => None,
            },
        };
        let Some(target) = target else {
            cx.note(p, v, Note::NotTickled);
            return;
        };
        if self.is_today() {
            self.idlers.remove(target);
        }
        cx.tickle(target);
    }

    /// Idle pCPUs that a waiting vCPU prefers, or else those where it may run.
    fn suitable_idlers(&self, state: &VcpuState) -> Option<CpuSet> {
        let among = |soft_step| {
            let idle = affinity(state, soft_step)?.and(self.idlers);
            (!idle.is_empty()).then_some(idle)
        };
        among(true).or_else(|| among(false))
    }

    /// Has the vCPU that is about to be preempted moved, if a pCPU is idle for it.
    ///
    /// Since 8a04eaa8ea Xen looks for that pCPU in the affinity of the vCPU that preempts.
    /// None is idle there, or it would have been tickled, so nobody is ever kicked away.
    ///
    /// Before f02a5760c7 nobody looked: a pCPU that is idle somewhere, whoever may use it, was
    /// enough. The current one goes to the end of its move and comes back where it was, by
    /// [`wake`](crate::sched::Scheduler::wake); and on the way it is not runnable, so that
    /// [`rate_limited`](Self::rate_limited) lets it go at once.
    fn kick_away(&mut self, cx: &mut SchedContext<'_>, current: Vcpu) {
        let idle = cx.vcpu(current).hard().and(self.idlers);
        let sense = self.is(CreditVersion::Xen48) && !idle.is_empty();
        if sense || self.config.kick_away_boosts {
            self.begin_move(cx, current);
        }
    }

    /// Stops a running vCPU so that it can be moved once its context is saved.
    pub(super) fn begin_move(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        self.unit(v).moving = true;
        cx.vcpu_mut(v).paused = true;
    }

    /// The rule of 2007: the vCPU's own pCPU if it outranks who runs there, and if that
    /// one is not idle, *all* idle pCPUs, so that one of them may come and take work.
    fn tickle_2007(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let p = cx.vcpu(v).processor;
        let current = cx.current(p);
        let mut targets = CpuSet::EMPTY;
        if self.outranks(self.units[v.index()].priority, self.priority(current)) {
            targets.insert(p);
        }
        if current.is_some() && !self.idlers.is_empty() {
            targets = targets.or(self.idlers).and(*cx.vcpu(v).hard());
        }
        if targets.is_empty() {
            cx.note(p, v, Note::NotTickled);
        }
        targets.iter().for_each(|p| cx.tickle(p));
    }

    /// Where `v` should be (`_csched_cpu_pick`): where it is, or on an idle pCPU if there
    /// others wait, or on another socket if that is twice as idle. With `commit` the choice
    /// is remembered, so that the next one from that socket is another.
    ///
    /// Of Xen's rules those for hyper-threads are left out: on the same socket one core is
    /// as good as another.
    pub(super) fn pick(&mut self, host: &HostState, v: Vcpu, commit: bool) -> Pcpu {
        if self.is(CreditVersion::Xen2007) {
            return self.pick_2007(&host.vcpus[v.index()]);
        }
        let state = &host.vcpus[v.index()];
        let (mut pick, mut bias_of) = (state.processor, None);
        for soft_step in [true, false] {
            let Some(allowed) = affinity(state, soft_step) else { continue };
            let Some(start) = allowed.this_or_next(state.processor) else { continue };
            pick = start;
            let mut idlers = self.idlers;
            // Meant for a vCPU that runs there alone; true also for one that has left.
            if pick == state.processor && !self.busy_queues.has(pick) {
                idlers.insert(pick);
            }
            let mut left = allowed.and(idlers);
            if !left.has(pick) {
                pick = left.next_after(pick).unwrap_or(pick);
            }
            left = left.minus(self.runqs[pick.index()].socket);
            while let Some(next) = left.next_after(pick) {
                let there = idlers.and(self.runqs[next.index()].socket);
                let here = idlers.and(self.runqs[pick.index()].socket);
                if here.len() * 2 < there.len() {
                    let from = self.runqs[next.index()].idle_bias;
                    pick = left.and(there).next_after(from).unwrap_or(next);
                    bias_of = Some(next);
                }
                left = left.minus(there);
            }
            if idlers.has(pick) {
                break;
            }
        }
        if let Some(p) = bias_of.filter(|_| commit) {
            self.runqs[p.index()].idle_bias = pick;
        }
        pick
    }

    /// The rule of 2007 (`csched_cpu_pick`): stay, or go where a socket is more idle.
    fn pick_2007(&self, state: &VcpuState) -> Pcpu {
        let mut pick = state.hard().this_or_next(state.processor).unwrap_or(state.processor);
        // Its own pCPU counts as idle, whoever waits there.
        let idlers = self.idlers.or(CpuSet::only(pick));
        let mut left = state.hard().and(idlers).minus(self.runqs[pick.index()].socket);
        while let Some(next) = left.next_after(pick) {
            let there = idlers.and(self.runqs[next.index()].socket);
            let here = idlers.and(self.runqs[pick.index()].socket);
            if here.len() < there.len() {
                pick = next;
            }
            left = left.minus(there);
        }
        pick
    }

    /// Looks for a waiting vCPU of a priority above `own` on other pCPUs and takes it to
    /// `p` (`csched_load_balance`).
    pub(super) fn search(
        &mut self,
        cx: &mut SchedContext<'_>,
        p: Pcpu,
        own: Priority,
    ) -> Option<Vcpu> {
        let now = cx.now();
        let today = self.is_today();
        let runq = &mut self.runqs[p.index()];
        if today {
            if now.since(runq.last_search) <= SEARCH_LIMIT {
                return None;
            }
            runq.last_search = now;
        }
        // Queues of pCPUs that have been found idle are about to be served by them.
        let workers = self.busy_queues.minus(self.idlers).minus(CpuSet::only(p));
        if workers.is_empty() {
            return None;
        }
        if self.is(CreditVersion::Xen2007) {
            return self.search_among(cx, p, own, false, workers, p).map(|(v, _)| v);
        }
        let nodes = self.search_bias.len();
        let own_node = usize::from(self.node_of[p.index()]);
        for soft_step in [true, false] {
            if soft_step && !self.soft {
                continue;
            }
            for node in (own_node..nodes).chain(0..own_node) {
                let workers = workers.and(cx.host.topology.nodes[node]);
                // 4.8 always begins with the lowest one.
                let after = match self.config.version {
                    CreditVersion::Today | CreditVersion::Mended => self.search_bias[node],
                    _ => Pcpu(CpuSet::MAX_PCPUS - 1),
                };
                let found = self.search_among(cx, p, own, soft_step, workers, after);
                if let Some((v, peer)) = found {
                    self.search_bias[node] = peer;
                    return Some(v);
                }
            }
        }
        None
    }

    /// Goes once round `workers`, beginning behind `after`. Returns what it took and whence.
    fn search_among(
        &mut self,
        cx: &mut SchedContext<'_>,
        p: Pcpu,
        own: Priority,
        soft_step: bool,
        mut workers: CpuSet,
        after: Pcpu,
    ) -> Option<(Vcpu, Pcpu)> {
        let mut peer = after;
        while let Some(next) = workers.next_after(peer) {
            peer = next;
            workers.remove(peer);
            if let Some(at) = self.find_stealable(cx, peer, p, own, soft_step) {
                let v = self.dequeue(peer, at);
                cx.vcpu_mut(v).processor = p;
                cx.note(p, v, Note::Stolen);
                return Some((v, peer));
            }
        }
        None
    }

    /// The first vCPU in the queue of `peer` that `p` may take (`csched_runq_steal`).
    fn find_stealable(
        &self,
        cx: &SchedContext<'_>,
        peer: Pcpu,
        p: Pcpu,
        own: Priority,
        soft_step: bool,
    ) -> Option<usize> {
        cx.current(peer)?;
        let hot_for = self.config.migration_delay;
        for (at, &v) in self.runqs[peer.index()].waiting.iter().enumerate() {
            let unit = &self.units[v.index()];
            if unit.priority <= own {
                return None;
            }
            let state = cx.vcpu(v);
            // Only today does a queued vCPU still count as yielding.
            if unit.yielded || state.running {
                continue;
            }
            let ran = unit.last_ran.filter(|_| !self.is(CreditVersion::Xen2007));
            let hot = ran.is_some_and(|ran| cx.now().since(ran) < hot_for);
            if !hot && affinity(state, soft_step).is_some_and(|set| set.has(p)) {
                return Some(at);
            }
        }
        None
    }
}
