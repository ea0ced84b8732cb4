//! Which pCPU: where a thread wakes, and how load is moved from one pCPU to another.

use super::balance_state::LEVELS;
use super::loads::Shared;
use super::state::{EnqueueReason, Fair, Leave};
use super::version::FairVersion;
use crate::cpu_set::CpuSet;
use crate::host_state::HostState;
use crate::ids::{Pcpu, Vcpu};
use crate::record::Note;

/// The last level.
const NODES: usize = 2;
/// Who has run so recently is not moved (`sysctl_sched_migration_cost`), in ns.
const HOT: u64 = 500_000;
/// Threads that one pass looks at (`sysctl_sched_nr_migrate`).
const LOOKED_AT: usize = 32;
/// A pCPU at least so much busier than this one, in percent, is worth the move (`imbalance_pct`), at each level.
const WORTH: [u64; LEVELS] = [117, 117, 125];

/// After so many passes in vain who runs is moved (`need_active_balance`: `cache_nice_tries` + 2).
const PATIENCE: u32 = 3;

/// Why a pCPU looks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuIdleType {
    /// It would go idle.
    NewlyIdle,
    /// It idles.
    Idle,
    /// It is busy, and it is time.
    Busy,
}

/// What is to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amount {
    Load(u64),
    Threads(u32),
}

/// How the load of a set of pCPUs is, in the order in which others look at it (`group_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GroupType {
    Spare,
    Full,
    Overloaded,
}

/// A pCPU, or all of a cache or node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Members {
    Pcpu(usize),
    Set(Shared, usize),
}

/// The load of these (`struct sg_lb_stats`).
#[derive(Debug, Clone, Copy)]
struct GroupStats {
    members: Members,
    pcpus: u32,
    load: u64,
    threads: u32,
    idle: u32,
    group_type: GroupType,
}

impl GroupStats {
    /// Load per pCPU.
    fn average(&self) -> u64 {
        self.load / u64::from(self.pcpus).max(1)
    }

    /// Load per thread.
    fn per_thread(&self) -> u64 {
        self.load / u64::from(self.threads.max(1))
    }
}

impl Fair {
    /// Nothing runs there, and nothing waits.
    fn idles(&self, p: usize) -> bool {
        self.loads.idles(p)
    }

    /// Where a thread that has never run begins: an idle pCPU, best of an idle core, else the least loaded
    /// (`find_idlest_cpu`, and before it the idlest group of each domain).
    pub(super) fn pick_first(&self, host: &HostState, allowed: CpuSet) -> Option<usize> {
        let load = |p: &usize| {
            let load = self.loads.of(*p);
            let sibling = host.sibling_of(self.pcpu(*p));
            let beside = sibling.is_some_and(|sibling| !self.idles(sibling.index()));
            (!self.idles(*p), beside, load.load, load.runnable)
        };
        allowed.iter().map(|p| p.index()).min_by_key(load)
    }

    /// Where a thread wakes that has run on `last`: there if it is idle, else on an idle pCPU of
    /// its cache, with SMT best on an idle core, then beside `last`; else there all the same (`select_idle_sibling`).
    pub(super) fn pick_wake(&self, host: &HostState, allowed: CpuSet, last: Pcpu) -> usize {
        if self.idles(last.index()) {
            return last.index();
        }
        let idle = self.loads.idle().and(self.set_of(host, Shared::Cache, last.index()));
        let core = host.idle_cores(idle).and(allowed).next_after(last);
        let beside = host.sibling_of(last).filter(|&p| idle.has(p) && allowed.has(p));
        let near = core.or(beside).or_else(|| idle.and(allowed).next_after(last));
        near.unwrap_or(last).index()
    }

    /// The thread `e` belongs to pCPU `p` from now on; it is in no queue (`set_task_cpu`).
    pub(super) fn set_pcpu(&mut self, e: usize, p: usize) {
        let from = self.entities[e].queue;
        let to = self.queues[from].group * self.cpus.len() + p;
        if from != to {
            let min = self.queues[from].min_vruntime;
            let cfs = !self.eevdf();
            let entity = &mut self.entities[e];
            if cfs && !entity.relative && !entity.fresh {
                entity.vruntime -= min;
                entity.relative = true;
            }
            entity.queue = to;
        }
    }

    /// The pCPU `p` has nothing to do (`newidle_balance`).
    pub(super) fn balance_newly_idle(&mut self, host: &mut HostState, p: usize) {
        if self.cpus[p].mean_idle < HOT {
            return;
        }
        for level in 0..LEVELS {
            self.balance(host, p, level, CpuIdleType::NewlyIdle);
            if self.queues[p].runnable > 0 {
                return;
            }
        }
    }

    /// The tick of the busy `p`: its own turn to balance, and that of idle pCPUs if it has more
    /// than it can do (`trigger_load_balance`, `nohz_balancer_kick`).
    pub(super) fn balance_tick(&mut self, host: &mut HostState, p: usize) {
        self.rebalance(host, p, CpuIdleType::Busy);
        if !self.config.balance_idle || self.queues[p].runnable < 2 {
            return;
        }
        for other in self.loads.idle().iter().map(|p| p.index()) {
            // One that has taken threads has had them since.
            if self.idles(other) {
                self.rebalance(host, other, CpuIdleType::Idle);
            }
        }
    }

    fn rebalance(&mut self, host: &mut HostState, p: usize, idle_type: CpuIdleType) {
        for level in 0..LEVELS {
            let state = self.cpus[p].balance_states[level];
            if self.now >= state.last + self.interval(host, p, level, idle_type) {
                self.cpus[p].balance_states[level].last = self.now;
                self.balance(host, p, level, idle_type);
            }
        }
    }

    /// How often (`get_sd_balance_interval`): in ms, as many as there are pCPUs, doubled when
    /// there was nothing to do; a busy one 16 or 32 times that.
    fn interval(&self, host: &HostState, p: usize, level: usize, idle_type: CpuIdleType) -> u64 {
        let old = self.config.version == FairVersion::Linux2639;
        let span = u64::from(self.span(host, p, level).len());
        let (least, most) = match (old, level) {
            (true, NODES) => (8, 32),
            (true, _) => (1, 4),
            (false, _) => (span, 2 * span),
        };
        let ms = if self.cpus[p].balance_states[level].relaxed { most } else { least };
        let factor = match (idle_type, old, level) {
            (CpuIdleType::Busy, true, level) if level < NODES => 64,
            (CpuIdleType::Busy, ..) if self.config.version < FairVersion::Linux66 => 32,
            (CpuIdleType::Busy, ..) => 16,
            _ => 1,
        };
        let interval = ms * factor * 1_000_000;
        match idle_type {
            // A tick less, so that not all intervals are multiples of each other (since 5.10).
            CpuIdleType::Busy if self.config.version >= FairVersion::Linux66 => {
                interval.saturating_sub(self.tunables.tick)
            }
            _ => interval,
        }
    }

    /// The pCPUs among which `p` balances.
    fn span(&self, host: &HostState, p: usize, level: usize) -> CpuSet {
        let node = || self.set_of(host, Shared::Node, p);
        match level {
            0 => self.set_of(host, Shared::Cache, p),
            1 if self.set_of(host, Shared::Cache, p) != node() => node(),
            NODES if host.topology.nodes.len() > 1 => host.pcpus,
            _ => CpuSet::EMPTY,
        }
    }

    /// The cache or node of `p`.
    fn set_of(&self, host: &HostState, shared: Shared, p: usize) -> CpuSet {
        sets(host, shared)[self.loads.set_of(shared, p)]
    }

    fn group_stats(&self, host: &HostState, members: Members) -> GroupStats {
        let (load, pcpus, idle) = match members {
            Members::Pcpu(p) => (self.loads.of(p), 1, u32::from(self.idles(p))),
            Members::Set(shared, number) => {
                let set = sets(host, shared)[number];
                let idle = self.loads.idle().and(set).len();
                (self.loads.of_set(shared, number), set.len(), idle)
            }
        };
        let group_type = match load.runnable.cmp(&pcpus) {
            std::cmp::Ordering::Less => GroupType::Spare,
            std::cmp::Ordering::Equal => GroupType::Full,
            std::cmp::Ordering::Greater => GroupType::Overloaded,
        };
        let (load, threads) = (load.load, load.runnable);
        GroupStats { members, pcpus, load, threads, idle, group_type }
    }

    /// One pass of `p` in one domain (`load_balance`).
    fn balance(&mut self, host: &mut HostState, p: usize, level: usize, idle_type: CpuIdleType) {
        let span = self.span(host, p, level);
        if span.len() < 2 || !self.is_turn(host, p, level, idle_type) {
            return;
        }
        let busiest = self.busiest(host, p, level, idle_type);
        let moved = busiest.map(|(set, amount)| self.pull(host, p, level, set, amount, idle_type));
        let state = &mut self.cpus[p].balance_states[level];
        match moved {
            Some(true) => (state.failed, state.relaxed) = (0, false),
            Some(false) if idle_type != CpuIdleType::NewlyIdle => {
                state.failed += 1;
                if state.failed > PATIENCE {
                    state.failed = 0;
                    self.ask_for(host, p, busiest);
                }
            }
            Some(false) => {}
            None => state.relaxed = true,
        }
    }

    /// Nobody who waits can be moved to `p`: who runs there is to come (`active_load_balance`).
    fn ask_for(&mut self, host: &HostState, p: usize, busiest: Option<(CpuSet, Amount)>) {
        let Some((set, amount)) = busiest else { return };
        let Some(from) = self.busiest_pcpu(p, set, amount) else { return };
        let Some(e) = self.cpus[from].current else { return };
        if !self.is_realtime(e) && self.can_push(host, e, p) {
            self.cpus[from].push = Some(p);
            self.resched(from);
        }
    }

    /// Whether `e`, which runs elsewhere, can go on on `p`, which has nothing to do.
    pub(super) fn can_push(&self, host: &HostState, e: usize, p: usize) -> bool {
        let there = self.queues[self.entities[e].queue].group * self.cpus.len() + p;
        self.idles(p)
            && host.vcpus[e].hard().has(self.pcpu(p))
            && self.entities[e].queued
            && self.queues[there].throttles == 0
    }

    /// Among caches or nodes one pCPU of each balances: its first idle one, else its first
    /// (`should_we_balance`).
    fn is_turn(&self, host: &HostState, p: usize, level: usize, idle_type: CpuIdleType) -> bool {
        let (Some(shared), false) = (shared(level), idle_type == CpuIdleType::NewlyIdle) else {
            return true;
        };
        let own = self.set_of(host, shared, p);
        let idle = self.loads.idle().and(own).first();
        idle.or_else(|| own.first()) == Some(self.pcpu(p))
    }

    /// The set of pCPUs to take from, and how much (`find_busiest_group`).
    fn busiest(
        &self,
        host: &HostState,
        p: usize,
        level: usize,
        idle_type: CpuIdleType,
    ) -> Option<(CpuSet, Amount)> {
        let new = self.config.version >= FairVersion::Linux66;
        let local = match shared(level) {
            None => Members::Pcpu(p),
            Some(shared) => Members::Set(shared, self.loads.set_of(shared, p)),
        };
        let (own, local) = (local, self.group_stats(host, local));
        let mut busiest: Option<GroupStats> = None;
        let mut all = local;
        let look = |members: Members| {
            let mut stats = self.group_stats(host, members);
            all.load += stats.load;
            all.pcpus += stats.pcpus;
            // Threads are rather spread over caches and nodes than packed (SD_PREFER_SIBLING).
            if !new
                && level > 0
                && local.group_type == GroupType::Spare
                && stats.threads > local.threads + 1
            {
                stats.group_type = GroupType::Overloaded;
            }
            let better = busiest.is_none_or(|best| match stats.group_type.cmp(&best.group_type) {
                std::cmp::Ordering::Equal if new && stats.group_type == GroupType::Spare => {
                    (best.idle, stats.threads) > (stats.idle, best.threads)
                }
                std::cmp::Ordering::Equal => stats.average() > best.average(),
                order => order.is_gt(),
            });
            if stats.threads > 0 && better {
                busiest = Some(stats);
            }
        };
        let span = self.span(host, p, level);
        match shared(level) {
            None => {
                let others = span.iter().map(|other| Members::Pcpu(other.index()));
                others.filter(|&other| other != own).for_each(look);
            }
            Some(shared) => {
                let within = |&(_, set): &(usize, &CpuSet)| set.minus(span).is_empty();
                let others = sets(host, shared).iter().enumerate().filter(within);
                let others = others.map(|(number, _)| Members::Set(shared, number));
                others.filter(|&other| other != own).for_each(look);
            }
        }
        let busiest = busiest?;
        let amount = if new {
            amount_by_threads(&local, &busiest, all.average(), level, idle_type)
        } else {
            amount_by_load(&local, &busiest, all.average(), level, idle_type)
        };
        let set = match busiest.members {
            Members::Pcpu(p) => CpuSet::only(self.pcpu(p)),
            Members::Set(shared, number) => sets(host, shared)[number],
        };
        Some((set, amount?))
    }

    /// Moves `amount` from the busiest of `set` to `p`; whether anything was moved.
    fn pull(
        &mut self,
        host: &mut HostState,
        p: usize,
        level: usize,
        set: CpuSet,
        amount: Amount,
        idle_type: CpuIdleType,
    ) -> bool {
        let Some(from) = self.busiest_pcpu(p, set, amount) else { return false };
        let failed = self.cpus[p].balance_states[level].failed;
        let new = self.config.version >= FairVersion::Linux66;
        let (mut left, mut moved) = (amount, false);
        let mut at = 0;
        for _ in 0..LOOKED_AT {
            let Some(&e) = self.cpus[from].threads.get(at) else { break };
            if idle_type != CpuIdleType::Busy && self.queues[from].runnable <= 1 {
                break;
            }
            let load = self.load_of(e);
            let fits = match left {
                // Since 5.10 as large as what is wanted, and larger with each pass in vain.
                Amount::Load(left) if new => load >> failed.min(63) <= left,
                Amount::Load(left) => load / 2 <= left,
                Amount::Threads(left) => left > 0,
            };
            if !fits || !self.can_move(host, p, e, failed) {
                at += 1;
                continue;
            }
            self.move_thread(host, e, p);
            moved = true;
            left = match left {
                Amount::Load(left) => Amount::Load(left.saturating_sub(load)),
                Amount::Threads(left) => Amount::Threads(left - 1),
            };
            if matches!(left, Amount::Load(0) | Amount::Threads(0)) {
                break;
            }
        }
        moved
    }

    /// `find_busiest_queue`.
    fn busiest_pcpu(&self, p: usize, set: CpuSet, amount: Amount) -> Option<usize> {
        let others = set.iter().map(|other| other.index()).filter(|&other| other != p);
        let more = others.filter(|&other| self.loads.of(other).runnable > 1);
        let key = |other: &usize| {
            let load = self.loads.of(*other);
            let most = match amount {
                Amount::Load(_) => load.load,
                Amount::Threads(_) => u64::from(load.runnable),
            };
            (most, std::cmp::Reverse(*other))
        };
        more.max_by_key(key)
    }

    /// Whether the waiting `e` may be moved to `p` (`can_migrate_task`).
    fn can_move(&self, host: &HostState, p: usize, e: usize, failed: u32) -> bool {
        let state = &host.vcpus[e];
        let q = self.entities[e].queue;
        let there = self.queues[q].group * self.cpus.len() + p;
        let hot = self.now - self.entities[e].exec_start < HOT;
        !state.running
            && state.hard().has(self.pcpu(p))
            && !self.entities[e].delayed
            && self.queues[q].throttles == 0
            && self.queues[there].throttles == 0
            && (!hot || failed > 1)
    }

    /// Moves the waiting thread `e` to pCPU `p`.
    fn move_thread(&mut self, host: &mut HostState, e: usize, p: usize) {
        self.dequeue_task(e, Leave::Move);
        self.unlink_task(e);
        self.set_pcpu(e, p);
        self.enqueue_task(e, EnqueueReason::Move);
        self.link_task(e);
        host.vcpus[e].processor = self.pcpu(p);
        self.deferred_notes.push((self.pcpu(p), Vcpu(e as u16), Note::Stolen));
        self.check_preempt(p, e);
    }
}

/// What the groups share among which load is balanced at a level; nothing if they are pCPUs.
fn shared(level: usize) -> Option<Shared> {
    match level {
        0 => None,
        1 => Some(Shared::Cache),
        _ => Some(Shared::Node),
    }
}

/// All caches, or all nodes.
fn sets(host: &HostState, shared: Shared) -> &[CpuSet] {
    match shared {
        Shared::Cache => &host.topology.caches,
        Shared::Node => &host.topology.nodes,
    }
}

/// How much to move, up to 5.4: by load, and at least so much that something can be moved
/// (`calculate_imbalance`, `fix_small_imbalance`).
fn amount_by_load(
    local: &GroupStats,
    busiest: &GroupStats,
    all: u64,
    level: usize,
    idle_type: CpuIdleType,
) -> Option<Amount> {
    let (here, there) = (local.average(), busiest.average());
    let room = local.group_type == GroupType::Spare && busiest.group_type == GroupType::Overloaded;
    if idle_type == CpuIdleType::Busy || !room {
        if here >= there || here >= all {
            return None;
        }
        if idle_type == CpuIdleType::Idle {
            if busiest.group_type != GroupType::Overloaded && local.idle <= busiest.idle + 1 {
                return None;
            }
        } else if 100 * there <= WORTH[level] * here {
            return None;
        }
    }
    let least = busiest.per_thread();
    let wanted = if there <= all || here >= all {
        0
    } else {
        ((there - all) * u64::from(busiest.pcpus)).min((all - here) * u64::from(local.pcpus))
    };
    if wanted >= least {
        return Some(Amount::Load(wanted));
    }
    // Is the host better off with one thread moved?
    let scaled = least / u64::from(busiest.pcpus);
    let factor = match local.threads {
        0 => 2,
        _ if busiest.per_thread() > local.per_thread() => 1,
        _ => 2,
    };
    if there + scaled >= here + scaled * factor {
        return Some(Amount::Load(least));
    }
    (wanted > 0).then_some(Amount::Load(wanted))
}

/// How much to move since 5.5 (0b0695f2b34a): threads while there is an idle pCPU here, load if
/// there is none.
fn amount_by_threads(
    local: &GroupStats,
    busiest: &GroupStats,
    all: u64,
    level: usize,
    idle_type: CpuIdleType,
) -> Option<Amount> {
    if local.group_type > busiest.group_type {
        return None;
    }
    let (here, there) = (local.average(), busiest.average());
    if local.group_type == GroupType::Overloaded {
        if here >= there || here >= all || 100 * there <= WORTH[level] * here {
            return None;
        }
    } else {
        let spread = level > 0
            && local.group_type == GroupType::Spare
            && busiest.threads > local.threads + 1;
        if !spread && busiest.group_type != GroupType::Overloaded {
            let lone = busiest.threads == 1;
            let even = busiest.pcpus > 1 && local.idle <= busiest.idle + 1;
            if idle_type == CpuIdleType::Busy || even || lone {
                return None;
            }
        }
    }
    if local.group_type == GroupType::Spare {
        let threads = if busiest.group_type == GroupType::Overloaded && level > 0 {
            // By what is unused here, which idle pCPUs are.
            local.idle.max(u32::from(idle_type != CpuIdleType::Busy))
        } else {
            busiest.threads.saturating_sub(local.threads) / 2
        };
        return (threads > 0).then_some(Amount::Threads(threads));
    }
    if here >= there || here >= all || there <= all {
        return None;
    }
    let load =
        ((there - all) * u64::from(busiest.pcpus)).min((all - here) * u64::from(local.pcpus));
    Some(Amount::Load(load))
}
