//! Which pCPU: where a thread wakes, and how load is moved from one pCPU to another.

use super::state::{EnqueueReason, Fair};
use super::version::FairVersion;
use crate::host_state::HostState;
use crate::ids::{CpuSet, Pcpu, Vcpu};
use crate::record::Note;

/// Who has run so recently is not moved (`sysctl_sched_migration_cost`), in ns.
const HOT: u64 = 500_000;
/// Threads that one pass looks at (`sysctl_sched_nr_migrate`).
const LOOKED_AT: usize = 32;
/// A pCPU at least so much busier than this one, in percent, is worth the move
/// (`imbalance_pct`): within a socket, and between sockets.
const WORTH: [u64; 2] = [117, 125];

/// After so many passes in vain who runs is moved (`need_active_balance`: `cache_nice_tries` + 2).
const PATIENCE: u32 = 3;

/// Why a pCPU looks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
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
enum Kind {
    Spare,
    Full,
    Overloaded,
}

/// The load of a set of pCPUs (`struct sg_lb_stats`).
#[derive(Debug, Clone, Copy)]
struct Side {
    set: CpuSet,
    load: u64,
    threads: u32,
    idle: u32,
    kind: Kind,
}

impl Side {
    fn pcpus(&self) -> u64 {
        u64::from(self.set.len())
    }

    /// Load per pCPU.
    fn average(&self) -> u64 {
        self.load / self.pcpus().max(1)
    }

    /// Load per thread.
    fn per_thread(&self) -> u64 {
        self.load / u64::from(self.threads.max(1))
    }
}

impl Fair {
    /// Nothing runs there, and nothing waits.
    fn idles(&self, p: usize) -> bool {
        self.cpus[p].current.is_none()
            && self.queues[p].runnable == 0
            && self.cpus[p].realtime.is_empty()
    }

    /// Where a thread that has never run begins: an idle pCPU, else the least loaded
    /// (`find_idlest_cpu`).
    pub(super) fn pick_first(&self, allowed: CpuSet) -> Option<usize> {
        let load = |p: &usize| (!self.idles(*p), self.queues[*p].load, self.queues[*p].runnable);
        allowed.iter().map(|p| p.index()).min_by_key(load)
    }

    /// Where a thread wakes that has run on `last`: there if it is idle, else on an idle pCPU of
    /// its socket, else there all the same (`select_idle_sibling`).
    pub(super) fn pick_wake(&self, facts: &HostState, allowed: CpuSet, last: Pcpu) -> usize {
        if self.idles(last.index()) {
            return last.index();
        }
        let mut near = facts.socket_of(last).and(allowed);
        let mut p = last;
        while let Some(next) = near.next_after(p) {
            if self.idles(next.index()) {
                return next.index();
            }
            near.remove(next);
            p = next;
        }
        last.index()
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
    pub(super) fn balance_newly_idle(&mut self, facts: &mut HostState, p: usize) {
        if self.cpus[p].mean_idle < HOT {
            return;
        }
        for level in 0..2 {
            self.balance(facts, p, level, Why::NewlyIdle);
            if self.queues[p].runnable > 0 {
                return;
            }
        }
    }

    /// The tick of the busy `p`: its own turn to balance, and that of idle pCPUs if it has more
    /// than it can do (`trigger_load_balance`, `nohz_balancer_kick`).
    pub(super) fn balance_tick(&mut self, facts: &mut HostState, p: usize) {
        self.rebalance(facts, p, Why::Busy);
        if !self.config.balance_idle || self.queues[p].runnable < 2 {
            return;
        }
        for other in facts.pcpus.iter().map(|p| p.index()) {
            if self.idles(other) {
                self.rebalance(facts, other, Why::Idle);
            }
        }
    }

    fn rebalance(&mut self, facts: &mut HostState, p: usize, why: Why) {
        for level in 0..2 {
            let pace = self.cpus[p].paces[level];
            if self.now >= pace.last + self.interval(facts, p, level, why) {
                self.cpus[p].paces[level].last = self.now;
                self.balance(facts, p, level, why);
            }
        }
    }

    /// How often (`get_sd_balance_interval`): in ms, as many as there are pCPUs, doubled when
    /// there was nothing to do; a busy one 16 or 32 times that.
    fn interval(&self, facts: &HostState, p: usize, level: usize, why: Why) -> u64 {
        let old = self.config.version == FairVersion::Linux2639;
        let span = u64::from(self.span(facts, p, level).len());
        let (least, most) = match (old, level) {
            (true, 0) => (1, 4),
            (true, _) => (8, 32),
            (false, _) => (span, 2 * span),
        };
        let ms = if self.cpus[p].paces[level].relaxed { most } else { least };
        let factor = match (why, old, level) {
            (Why::Busy, true, 0) => 64,
            (Why::Busy, ..) if self.config.version < FairVersion::Linux66 => 32,
            (Why::Busy, ..) => 16,
            _ => 1,
        };
        let interval = ms * factor * 1_000_000;
        match why {
            // A tick less, so that not all intervals are multiples of each other (since 5.10).
            Why::Busy if self.config.version >= FairVersion::Linux66 => {
                interval.saturating_sub(self.tunables.tick)
            }
            _ => interval,
        }
    }

    /// The pCPUs among which `p` balances: its socket, and the host.
    fn span(&self, facts: &HostState, p: usize, level: usize) -> CpuSet {
        match level {
            0 => facts.socket_of(self.pcpu(p)),
            _ if facts.sockets.len() > 1 => facts.pcpus,
            _ => CpuSet::EMPTY,
        }
    }

    fn side(&self, set: CpuSet) -> Side {
        let mut side = Side { set, load: 0, threads: 0, idle: 0, kind: Kind::Spare };
        for p in set.iter().map(|p| p.index()) {
            side.load += self.queues[p].load;
            side.threads += self.queues[p].runnable;
            side.idle += u32::from(self.idles(p));
        }
        side.kind = match side.threads.cmp(&set.len()) {
            std::cmp::Ordering::Less => Kind::Spare,
            std::cmp::Ordering::Equal => Kind::Full,
            std::cmp::Ordering::Greater => Kind::Overloaded,
        };
        side
    }

    /// One pass of `p` in one domain (`load_balance`).
    fn balance(&mut self, facts: &mut HostState, p: usize, level: usize, why: Why) {
        let span = self.span(facts, p, level);
        if span.len() < 2 || !self.is_turn(facts, p, level, why) {
            return;
        }
        let busiest = self.busiest(facts, p, level, why);
        let moved = busiest.map(|(set, amount)| self.pull(facts, p, level, set, amount, why));
        let pace = &mut self.cpus[p].paces[level];
        match moved {
            Some(true) => (pace.failed, pace.relaxed) = (0, false),
            Some(false) if why != Why::NewlyIdle => {
                pace.failed += 1;
                if pace.failed > PATIENCE {
                    pace.failed = 0;
                    self.ask_for(facts, p, busiest);
                }
            }
            Some(false) => {}
            None => pace.relaxed = true,
        }
    }

    /// Nobody who waits can be moved to `p`: who runs there is to come (`active_load_balance`).
    fn ask_for(&mut self, facts: &HostState, p: usize, busiest: Option<(CpuSet, Amount)>) {
        let Some((set, amount)) = busiest else { return };
        let Some(from) = self.busiest_pcpu(p, set, amount) else { return };
        let Some(e) = self.cpus[from].current else { return };
        if !self.is_realtime(e) && self.can_push(facts, e, p) {
            self.cpus[from].push = Some(p);
            self.resched(from);
        }
    }

    /// Whether `e`, which runs elsewhere, can go on on `p`, which has nothing to do.
    pub(super) fn can_push(&self, facts: &HostState, e: usize, p: usize) -> bool {
        let there = self.queues[self.entities[e].queue].group * self.cpus.len() + p;
        self.idles(p)
            && facts.vcpus[e].hard.has(self.pcpu(p))
            && self.entities[e].queued
            && self.queues[there].throttles == 0
    }

    /// Between sockets one pCPU of each balances: its first idle one, else its first
    /// (`should_we_balance`).
    fn is_turn(&self, facts: &HostState, p: usize, level: usize, why: Why) -> bool {
        if level == 0 || why == Why::NewlyIdle {
            return true;
        }
        let socket = facts.socket_of(self.pcpu(p));
        let idle = socket.iter().find(|other| self.idles(other.index()));
        idle.or_else(|| socket.first()) == Some(self.pcpu(p))
    }

    /// The set of pCPUs to take from, and how much (`find_busiest_group`).
    fn busiest(
        &self,
        facts: &HostState,
        p: usize,
        level: usize,
        why: Why,
    ) -> Option<(CpuSet, Amount)> {
        let new = self.config.version >= FairVersion::Linux66;
        let socket = facts.socket_of(self.pcpu(p));
        let local = self.side(if level == 0 { CpuSet::only(self.pcpu(p)) } else { socket });
        let mut busiest: Option<Side> = None;
        let mut all = local;
        let mut look = |set: CpuSet| {
            let mut side = self.side(set);
            all.load += side.load;
            all.set = all.set.or(set);
            // Threads are rather spread over sockets than packed (SD_PREFER_SIBLING).
            if !new && level == 1 && local.kind == Kind::Spare && side.threads > local.threads + 1 {
                side.kind = Kind::Overloaded;
            }
            let better = busiest.is_none_or(|best| match side.kind.cmp(&best.kind) {
                std::cmp::Ordering::Equal if new && side.kind == Kind::Spare => {
                    (best.idle, side.threads) > (side.idle, best.threads)
                }
                std::cmp::Ordering::Equal => side.average() > best.average(),
                order => order.is_gt(),
            });
            if side.threads > 0 && better {
                busiest = Some(side);
            }
        };
        match level {
            0 => socket.iter().filter(|o| o.index() != p).for_each(|o| look(CpuSet::only(o))),
            _ => facts.sockets.iter().filter(|s| **s != socket).for_each(|s| look(*s)),
        }
        let busiest = busiest?;
        let amount = if new {
            amount_by_threads(&local, &busiest, all.average(), level, why)
        } else {
            amount_by_load(&local, &busiest, all.average(), level, why)
        };
        Some((busiest.set, amount?))
    }

    /// Moves `amount` from the busiest of `set` to `p`; whether anything was moved.
    fn pull(
        &mut self,
        facts: &mut HostState,
        p: usize,
        level: usize,
        set: CpuSet,
        amount: Amount,
        why: Why,
    ) -> bool {
        let Some(from) = self.busiest_pcpu(p, set, amount) else { return false };
        let failed = self.cpus[p].paces[level].failed;
        let new = self.config.version >= FairVersion::Linux66;
        let (mut left, mut moved) = (amount, false);
        let mut at = 0;
        for _ in 0..LOOKED_AT {
            let Some(&e) = self.cpus[from].threads.get(at) else { break };
            if why != Why::Busy && self.queues[from].runnable <= 1 {
                break;
            }
            let load = self.load_of(e);
            let fits = match left {
                // Since 5.10 as large as what is wanted, and larger with each pass in vain.
                Amount::Load(left) if new => load >> failed.min(63) <= left,
                Amount::Load(left) => load / 2 <= left,
                Amount::Threads(left) => left > 0,
            };
            if !fits || !self.can_move(facts, p, e, failed) {
                at += 1;
                continue;
            }
            self.move_thread(facts, e, p);
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
        let more = others.filter(|&other| self.queues[other].runnable > 1);
        let key = |other: &usize| match amount {
            Amount::Load(_) => (self.queues[*other].load, std::cmp::Reverse(*other)),
            Amount::Threads(_) => {
                (u64::from(self.queues[*other].runnable), std::cmp::Reverse(*other))
            }
        };
        more.max_by_key(key)
    }

    /// Whether the waiting `e` may be moved to `p` (`can_migrate_task`).
    fn can_move(&self, facts: &HostState, p: usize, e: usize, failed: u32) -> bool {
        let state = &facts.vcpus[e];
        let q = self.entities[e].queue;
        let there = self.queues[q].group * self.cpus.len() + p;
        let hot = self.now - self.entities[e].settled < HOT;
        !state.running
            && state.hard.has(self.pcpu(p))
            && !self.entities[e].delayed
            && self.queues[q].throttles == 0
            && self.queues[there].throttles == 0
            && (!hot || failed > 1)
    }

    /// Moves the waiting thread `e` to pCPU `p`.
    fn move_thread(&mut self, facts: &mut HostState, e: usize, p: usize) {
        self.dequeue(e, false);
        self.forget(e);
        self.set_pcpu(e, p);
        self.enqueue(e, EnqueueReason::Move);
        self.remember(e);
        facts.vcpus[e].processor = self.pcpu(p);
        self.notes.push((self.pcpu(p), Vcpu(e as u16), Note::Stolen));
        self.check_preempt(p, e);
    }
}

/// How much to move, up to 5.4: by load, and at least so much that something can be moved
/// (`calculate_imbalance`, `fix_small_imbalance`).
fn amount_by_load(
    local: &Side,
    busiest: &Side,
    all: u64,
    level: usize,
    why: Why,
) -> Option<Amount> {
    let (here, there) = (local.average(), busiest.average());
    let room = local.kind == Kind::Spare && busiest.kind == Kind::Overloaded;
    if why == Why::Busy || !room {
        if here >= there || here >= all {
            return None;
        }
        if why == Why::Idle {
            if busiest.kind != Kind::Overloaded && local.idle <= busiest.idle + 1 {
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
        ((there - all) * busiest.pcpus()).min((all - here) * local.pcpus())
    };
    if wanted >= least {
        return Some(Amount::Load(wanted));
    }
    // Is the host better off with one thread moved?
    let scaled = least / busiest.pcpus();
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
    local: &Side,
    busiest: &Side,
    all: u64,
    level: usize,
    why: Why,
) -> Option<Amount> {
    if local.kind > busiest.kind {
        return None;
    }
    let (here, there) = (local.average(), busiest.average());
    if local.kind == Kind::Overloaded {
        if here >= there || here >= all || 100 * there <= WORTH[level] * here {
            return None;
        }
    } else {
        let spread = level == 1 && local.kind == Kind::Spare && busiest.threads > local.threads + 1;
        if !spread && busiest.kind != Kind::Overloaded {
            let lone = busiest.threads == 1;
            let even = busiest.pcpus() > 1 && local.idle <= busiest.idle + 1;
            if why == Why::Busy || even || lone {
                return None;
            }
        }
    }
    if local.kind == Kind::Spare {
        let threads = if busiest.kind == Kind::Overloaded && level == 1 {
            // By what is unused here, which idle pCPUs are.
            local.idle.max(u32::from(why != Why::Busy))
        } else {
            busiest.threads.saturating_sub(local.threads) / 2
        };
        return (threads > 0).then_some(Amount::Threads(threads));
    }
    if here >= there || here >= all || there <= all {
        return None;
    }
    let load = ((there - all) * busiest.pcpus()).min((all - here) * local.pcpus());
    Some(Amount::Load(load))
}
