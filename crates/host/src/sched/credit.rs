//! Xen's credit scheduler ("credit1"), in three states of its history.
//!
//! Written from the behaviour of `common/sched_credit.c` in Xen 3.2.0-rc1 and 4.8.1 and of
//! `common/sched/credit.c` as of August 2026; names in parentheses below are functions
//! there, and commits are of xen.git.
//!
//! # The rules
//!
//! Each pCPU has a queue of vCPUs in three priorities: BOOST before UNDER (credits left)
//! before OVER (none), first come first served within each. A vCPU runs for a time slice
//! at most and goes to the end of its priority. A tick every third of a slice looks at
//! who runs; every slice the credits of the *active* vCPUs are topped up by weight
//! (`credit/account.rs`). Idle and overdrawn pCPUs take waiting vCPUs from others
//! (`credit/balance.rs`).
//!
//! | | [`Xen2007`] | [`Xen48`] | [`Today`] |
//! |---|---|---|---|
//! | run time is charged | a tick's worth to whom the tick finds | as used, since 78c9b2a64b (2009) | as used |
//! | weight counts | per domain | per active vCPU, since 3a37d430ce (2010) | per active vCPU |
//! | credits of a vCPU that stops earning | dropped | halved | halved |
//! | boost when waking | UNDER and not parked | and not after a move (66c7449a4d, 2016) | the same |
//! | boost when unparked | no | yes, a mistake (be65075094) | no (5c8c0ae7c4, 2019) |
//! | rate limit | none | yes, not for a yielding vCPU (9fdd2f3c9c) | the same |
//! | a yielding vCPU | goes behind its equals | and one lower priority | and is not stolen (e282067cf2, 2023) |
//! | a wake-up tickles | its pCPU if that helps, and all idle ones | one of them | and marks it busy (47d5292995, 2017) |
//! | soft affinity | none | yes | yes |
//! | search for work to take | any time | any time, from the lowest pCPU | at most once per ms (58feb9e0ac, 2023), going round (89216c7999, 2017) |
//!
//! [`Xen2007`]: CreditVersion::Xen2007
//! [`Xen48`]: CreditVersion::Xen48
//! [`Today`]: CreditVersion::Today
//!
//! # What it does not guarantee
//!
//! The real scheduler has these gaps, and so has this one:
//!
//! - *A tick dodger is not caught by exact charging.* Only active vCPUs change between
//!   UNDER and OVER, and only a tick that finds a vCPU running makes it active
//!   (`csched_unit_acct`). Who is never found by a tick stays UNDER, with any debt.
//! - *Debt comes due at once.* A guest that ticks rarely find, a small server, earns nothing
//!   meanwhile, but is charged. When a tick does find it, it may turn out to be a slice's
//!   worth in debt, and it waits as OVER, unboosted, until top-ups have paid for that.
//! - *Weights are per active vCPU* (since 2010): four busy vCPUs outweigh one, 4 to 1.
//! - *Shares of heavy vCPUs*: who has more than a slice's worth of credits stops earning, as
//!   if it had nothing to do, even if it only waits for its turn behind other UNDER ones. A
//!   heavy vCPU beside several others can lose its due that way, period after period
//!   (2007: weight 1024 beside 128, 256 and 512 gets 45 to 53 % instead of 53 %, depending
//!   on how ticks fall into slices).
//! - *Boost does not preempt boost*: a boosted vCPU waits until the boosted current one
//!   sleeps, or its slice ends. That the tick takes the current one's boost away does not
//!   make the pCPU look again ([`CreditConfig::boost_preempts_boost`] is a remedy).
//! - *Work conservation*, today: a pCPU that searched for work less than 1 ms ago and is
//!   tickled for a waiting vCPU does not search again and goes back to idle. The vCPU then
//!   waits until somebody else looks: the next tick of its pCPU's current one, often.
//! - *Caps* hold on average. Enforcement looks every slice and works through debt, so a
//!   capped vCPU runs and pauses for whole slices, and is ahead by up to one at any time.
//! - *Kicking away* the preempted current vCPU towards an idle pCPU (`__runq_tickle`) is
//!   dead code since 8a04eaa8ea (2019), which made it look at the waker's affinity, in
//!   which no pCPU is idle at that point, where it had looked at the current one's.
//!   Up to Xen 4.6 it did not look at all: see [`CreditConfig::kick_away_boosts`].
//!
//! # What is different here
//!
//! - Nothing is concurrent: a method runs to its end before another begins, so there are
//!   no locks, and a try-lock on another pCPU's queue (`csched_load_balance`) succeeds.
//! - Ticks fall on multiples of the period since time zero. In Xen they do too whenever a
//!   pCPU leaves idle (`csched_schedule`, `csched_tick_resume`), but late timers make them
//!   drift while it is busy. The 2007 ticks all start together and drift likewise.
//! - Arithmetic is in 64 bits. Xen's accounting is in 32 and wraps if the product of all
//!   credits, a weight and the domain's vCPUs is larger (16 pCPUs, weight 65535, 14 vCPUs).
//! - A vCPU starts on the allowed pCPU with the fewest vCPUs. Xen starts a domain's first
//!   one there (3.2) or on a random one (4.8 and later) and the others on the next ones.
//! - The pCPU from which the search for an idle one to tickle goes on is one for the host;
//!   in Xen each waking pCPU has its own (`last_tickle_cpu`). Wakers are not simulated.
//! - Events of one instant come in a fixed order, and without jitter hosts full of hogs
//!   stay in step: slices that end everywhere at once leave nothing to take for others.
//!   Any guest that sleeps now and then breaks the step.
//! - Every pCPU is a core of its own, sockets are NUMA nodes, and the boot options
//!   `tickle_one_idle_cpu`, `load-balance-ratelimit` and `sched_smt_power_savings` have
//!   their defaults.

mod account;
mod balance;
mod check;
mod config;
mod shares;
mod state;

use lowtail_engine::{Duration, Time};

use crate::cpu_set::CpuSet;
use crate::event::SchedTimer;
use crate::host_state::HostState;
use crate::ids::{Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;
use crate::sched::scheduler::{Decision, Scheduler};
use crate::topology::set_of_each;

use config::MIN_TIMER;
pub use config::{CreditConfig, CreditKeys, CreditVersion};
pub use state::Credit;
use state::{Priority, Runq, Unit};

impl Credit {
    /// Whether the rate limit keeps `v` on its pCPU, and if so, until when (`csched_schedule`).
    ///
    /// Xen means to program no timer shorter than 100 us, but compares the time *run* with that (0053127890, 2016), and
    /// `CSCHED_MIN_TIMER` is the number 100, of nanoseconds: it never matters. What is left is programmed, however short. Mended, it is
    /// as Xen means it.
    fn rate_limited(&self, cx: &SchedContext<'_>, v: Vcpu) -> Option<Duration> {
        let limit = self.config.ratelimit;
        let state = cx.vcpu(v);
        let run = cx.now().since(state.since);
        let yielded = self.units[v.index()].yielded;
        if yielded || run >= limit || !state.runnable() || self.is(CreditVersion::Xen2007) {
            return None;
        }
        let rest = limit - run;
        Some(if self.is(CreditVersion::Mended) { rest.max(MIN_TIMER) } else { rest })
    }

    /// Hands the pCPU from `prev` to `next` in the charging of run time.
    fn hand_over(&mut self, now: Time, prev: Option<Vcpu>, next: Option<Vcpu>) {
        let now = now.as_ps() as i64;
        if let Some(v) = prev {
            self.unit(v).charged_to -= now;
        }
        if let Some(v) = next {
            self.unit(v).charged_to += now;
        }
    }

    /// Lets the ticks of `p`, which gets to work, go on at the next multiple of the period
    /// (`csched_tick_resume` in 4.8, `csched_schedule` today, with the same effect). They
    /// end by themselves when a tick finds the pCPU idle, instead of when it goes idle:
    /// that saves two timer operations per nap, and no tick of an idle pCPU does anything.
    fn resume_ticks(&mut self, cx: &mut SchedContext<'_>, p: Pcpu) {
        let now = cx.now();
        let runq = &mut self.runqs[p.index()];
        runq.busy_since = now;
        if std::mem::replace(&mut runq.ticking, true) {
            return;
        }
        let period = self.config.tick();
        let into = Duration::from_ps(now.as_ps() % period.as_ps());
        cx.arm(SchedTimer(u32::from(p.0)), now + (period - into));
    }

    /// The timer of a pCPU's tick has fired.
    fn tick_timer(&mut self, cx: &mut SchedContext<'_>, p: Pcpu) {
        let runq = &mut self.runqs[p.index()];
        let always = self.config.version == CreditVersion::Xen2007;
        if cx.current(p).is_none() && !always {
            runq.ticking = false;
            return;
        }
        // Had the timer been stopped, the pCPU would get its next tick a period from now.
        if runq.busy_since < cx.now() || always {
            self.tick(cx, p);
        }
        cx.arm(SchedTimer(u32::from(p.0)), cx.now() + self.config.tick());
    }

    /// The timer of the accounting, after those of the ticks.
    fn accounting_timer(&self) -> SchedTimer {
        SchedTimer(self.runqs.len() as u32)
    }
}

impl Scheduler for Credit {
    fn start(&mut self, cx: &mut SchedContext<'_>) {
        let vcpus = cx.host.vcpus.len();
        self.idlers = cx.host.pcpus;
        let (sockets, nodes) = (&cx.host.topology.sockets, &cx.host.topology.nodes);
        let socket_of = set_of_each(sockets, cx.host.pcpus);
        let runq = |p: Pcpu| Runq {
            waiting: Vec::with_capacity(vcpus),
            sorted: 0,
            unsorted: false,
            idle_bias: Pcpu(CpuSet::MAX_PCPUS - 1),
            last_search: Time::ZERO,
            busy_since: Time::ZERO,
            ticking: false,
            socket: sockets[usize::from(socket_of[p.index()])],
        };
        self.runqs = cx.host.pcpus.iter().map(runq).collect();
        self.search_bias = nodes.iter().filter_map(CpuSet::first).collect();
        self.node_of = set_of_each(nodes, cx.host.pcpus);
        let moved = !self.is(CreditVersion::Xen2007);
        let unit = |dom| Unit {
            priority: Priority::Under,
            credit: 0,
            residual: 0,
            charged_to: 0,
            last_ran: None,
            dom,
            active: false,
            queued: false,
            parked: false,
            moving: false,
            // Creation picks a pCPU, which counts as a move (`csched_unit_insert`).
            moved,
            yielded: false,
        };
        self.units = cx.host.vcpus.iter().map(|v| unit(v.dom)).collect();
        self.soft = moved && cx.host.vcpus.iter().any(|v| v.has_soft_affinity());
        self.shares.start(cx.host);
        self.place(cx.host);
        let tick = Time::ZERO + self.config.tick();
        if self.is(CreditVersion::Xen2007) {
            cx.host.pcpus.iter().for_each(|p| cx.arm(SchedTimer(u32::from(p.0)), tick));
            self.runqs.iter_mut().for_each(|runq| runq.ticking = true);
        } else {
            cx.arm(self.accounting_timer(), Time::ZERO + self.config.timeslice);
        }
    }

    /// `csched_unit_wake`, behind the test of `vcpu_wake` in `core.c` that `v` is runnable:
    /// one that is parked or on the move is not woken before that is over.
    fn wake(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        if !cx.vcpu(v).runnable() || cx.is_current(v) || self.units[v.index()].queued {
            return;
        }
        let p = cx.vcpu(v).processor;
        let (boosts, after_move) = (self.config.boost, self.config.kick_away_boosts);
        let unit = self.unit(v);
        let moved = std::mem::take(&mut unit.moved) && !after_move;
        if boosts && !moved && unit.priority == Priority::Under && !unit.parked {
            unit.priority = Priority::Boost;
            cx.note(p, v, Note::Boosted);
        }
        self.enqueue(p, v);
        self.tickle(cx, v);
    }

    /// `csched_unit_yield`. In 2007 a yield only enters the scheduler.
    fn yielded(&mut self, _view: &mut SchedContext<'_>, v: Vcpu) {
        self.unit(v).yielded = !self.is(CreditVersion::Xen2007);
    }

    /// `csched_schedule`.
    fn schedule(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision {
        let now = cx.now();
        if let Some(v) = prev {
            self.charge_run_time(now, v);
            self.unit(v).last_ran = Some(now);
            if let Some(rest) = self.rate_limited(cx, v) {
                cx.note(p, v, Note::RateLimited);
                return Decision { next: prev, run_for: Some(rest) };
            }
            if cx.vcpu(v).runnable() {
                self.enqueue(p, v);
            }
            if self.is(CreditVersion::Xen48) {
                self.unit(v).yielded = false;
            }
        }
        let head = self.runqs[p.index()].waiting.first().copied();
        let priority = self.priority(head);
        let stolen = if priority <= Priority::Over { self.search(cx, p, priority) } else { None };
        let next = stolen.or_else(|| head.map(|_| self.dequeue(p, 0)));
        if next.is_none() {
            self.idlers.insert(p);
        } else {
            self.idlers.remove(p);
        }
        if prev != next {
            self.hand_over(now, prev, next);
        }
        if prev.is_none() && next.is_some() {
            self.resume_ticks(cx, p);
        }
        // An idle pCPU of 2007 looks for work once per slice.
        let limited = next.is_some() || self.is(CreditVersion::Xen2007);
        Decision { next, run_for: limited.then_some(self.config.timeslice) }
    }

    /// What `context_saved` in `core.c` does about a vCPU that is to move: it gets another
    /// pCPU and is woken there, if it has not gone to sleep meanwhile.
    fn context_saved(&mut self, cx: &mut SchedContext<'_>, _p: Pcpu, v: Vcpu) {
        if !std::mem::take(&mut self.unit(v).moving) {
            return;
        }
        let pick = self.pick(cx.host, v, true);
        let unit = &mut self.units[v.index()];
        unit.moved = self.config.version != CreditVersion::Xen2007;
        let state = cx.vcpu_mut(v);
        state.paused = unit.parked;
        state.processor = pick;
        self.wake(cx, v);
    }

    fn timer(&mut self, cx: &mut SchedContext<'_>, timer: SchedTimer) -> Option<Pcpu> {
        if timer == self.accounting_timer() {
            self.account(cx);
            cx.arm(timer, cx.now() + self.config.timeslice);
        } else {
            self.tick_timer(cx, Pcpu(timer.0 as u16));
        }
        None
    }

    fn check(&self, host: &HostState) -> Result<(), String> {
        // No event has happened yet.
        if self.units.is_empty() {
            return Ok(());
        }
        for i in 0..self.units.len() {
            self.check_unit(host, Vcpu(i as u16))?;
        }
        for p in host.pcpus.iter() {
            self.check_queue(host, p)?;
        }
        self.check_shares(host)
    }
}
