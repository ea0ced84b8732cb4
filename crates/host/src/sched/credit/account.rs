//! Credits: charging run time, the tick, and the top-up once per time slice.

use lowtail_engine::Time;

use super::config::{CREDITS_PER_MS, CreditVersion};
use super::state::{Credit, Priority};
use crate::host_state::HostState;
use crate::ids::{Dom, Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;
use crate::sched::scheduler::Scheduler;

/// One credit as run time, in ps: 100 us.
const PS_PER_CREDIT: i64 = PS_PER_MS / CREDITS_PER_MS;
const PS_PER_MS: i64 = 1_000_000_000;

/// What is being handed out in one accounting.
struct Pot {
    total: i64,
    /// Weight of the domains not served yet.
    weight_left: i64,
    /// A domain before got less than it could use.
    wanting: bool,
}

/// Quotient of two numbers not below zero, rounded up as everywhere in Xen's accounting.
fn div_up(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

impl Credit {
    /// Charges `v`, which runs, for the time since it was last charged (`burn_credits`).
    ///
    /// Whole credits of 100 us are taken and the rest is kept, in fact twice over: in
    /// `charged_to` and in `residual`. The sum is never off by more than one credit.
    /// In 2007 only ticks charge.
    #[inline]
    pub(super) fn charge_run_time(&mut self, now: Time, v: Vcpu) {
        if self.is(CreditVersion::Xen2007) {
            return;
        }
        let unit = self.unit(v);
        let used = now.as_ps() as i64 - unit.charged_to;
        if used <= 0 {
            return;
        }
        let used = used * CREDITS_PER_MS + unit.residual;
        unit.residual = used % PS_PER_MS;
        let credits = used / PS_PER_MS;
        unit.credit -= credits;
        unit.charged_to += credits * PS_PER_CREDIT;
    }

    /// The tick of `p` (`csched_tick`). In 2007 every third one of the first pCPU is also
    /// the accounting, which has a timer of its own since.
    pub(super) fn tick(&mut self, cx: &mut SchedContext<'_>, p: Pcpu) {
        if let Some(v) = cx.current(p) {
            self.tick_running(cx, p, v);
        }
        if self.is(CreditVersion::Xen2007) && p == Pcpu(0) {
            self.shares.ticks += 1;
            if self.shares.ticks.is_multiple_of(self.config.ticks_per_slice()) {
                self.account(cx);
            }
        }
        self.sort_queue(p);
    }

    /// A tick finds `v` running (`csched_unit_acct`). Its boost ends, but nobody is told:
    /// a boosted vCPU that waits behind it goes on waiting.
    fn tick_running(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, v: Vcpu) {
        let now = cx.now();
        if self.units[v.index()].priority == Priority::Boost {
            self.unit(v).priority = Priority::Under;
            cx.note(p, v, Note::BoostEnded);
        }
        if self.is(CreditVersion::Xen2007) {
            let credits = self.shares.per_slice / self.config.ticks_per_slice() as i64;
            self.unit(v).credit -= credits;
        } else {
            self.charge_run_time(now, v);
        }
        if !self.units[v.index()].active {
            self.activate(cx.host, v);
        } else if self.pick(cx.host, v, false) != p {
            self.begin_move(cx, v);
            cx.tickle(p);
        }
    }

    /// Sorts the queue of `p` if priorities have changed since it did so last: OVER behind
    /// the others (`csched_runq_sort`). BOOST and UNDER are not sorted among each other.
    fn sort_queue(&mut self, p: Pcpu) {
        let runq = &mut self.runqs[p.index()];
        if runq.sorted == self.shares.period {
            return;
        }
        runq.sorted = self.shares.period;
        runq.unsorted = false;
        let mut sorted = 0;
        for at in 0..runq.waiting.len() {
            if self.units[runq.waiting[at].index()].priority >= Priority::Under {
                runq.waiting[sorted..=at].rotate_right(1);
                sorted += 1;
            }
        }
    }

    /// `v` takes part in the accounting from now on (`__csched_unit_acct_start`).
    fn activate(&mut self, host: &HostState, v: Vcpu) {
        let per_domain = self.is(CreditVersion::Xen2007);
        let unit = &mut self.units[v.index()];
        unit.active = true;
        let (shares, dom) = (&mut self.shares, unit.dom);
        let active = &mut shares.active[dom.index()];
        if active.is_empty() {
            shares.doms.insert(0, dom);
        }
        if active.is_empty() || !per_domain {
            shares.weight += i64::from(host.doms[dom.index()].weight);
        }
        active.insert(0, v);
    }

    /// The active vCPU number `at` of `dom` has enough and stops earning
    /// (`__csched_unit_acct_stop_locked`). In 2007 it loses what it has, later half of it.
    fn deactivate(&mut self, host: &HostState, dom: Dom, at: usize) {
        let per_domain = self.is(CreditVersion::Xen2007);
        let shares = &mut self.shares;
        let active = &mut shares.active[dom.index()];
        let v = active.remove(at);
        if active.is_empty() || !per_domain {
            shares.weight -= i64::from(host.doms[dom.index()].weight);
        }
        if active.is_empty() {
            shares.doms.retain(|&d| d != dom);
        }
        let unit = self.unit(v);
        unit.active = false;
        unit.credit = if per_domain { 0 } else { unit.credit / 2 };
    }

    /// Tops up the credits of active vCPUs, sets their priorities, and enforces caps
    /// (`csched_acct`).
    pub(super) fn account(&mut self, cx: &mut SchedContext<'_>) {
        let weight_total = self.shares.weight;
        let debt = (-self.shares.balance).max(0);
        self.shares.balance = 0;
        if weight_total == 0 {
            return;
        }
        let total = self.shares.credit + debt;
        let mut pot = Pot { total, weight_left: weight_total, wanting: false };
        let mut serving = std::mem::take(&mut self.shares.serving);
        serving.clone_from(&self.shares.doms);
        for &dom in &serving {
            let cap = self.cap_in_credits(cx.host, dom);
            let share = self.share_of(cx.host, dom, &mut pot, weight_total, debt, cap);
            let n = self.shares.active[dom.index()].len() as i64;
            self.top_up(cx, dom, div_up(share, n), cap.map(|cap| div_up(cap, n)));
        }
        self.shares.serving = serving;
        self.shares.period += 1;
    }

    /// What the cap of `dom` allows per slice.
    fn cap_in_credits(&self, host: &HostState, dom: Dom) -> Option<i64> {
        let cap = i64::from(host.doms[dom.index()].cap_percent);
        (cap != 0).then(|| div_up(cap * self.shares.per_slice, 100))
    }

    /// What the active vCPUs of `dom` get together. What it cannot use goes to those who
    /// are served after it; therefore one who could use more, or is about to leave others
    /// something, is served first next time.
    fn share_of(
        &mut self,
        host: &HostState,
        dom: Dom,
        pot: &mut Pot,
        weight_total: i64,
        debt: i64,
        cap: Option<i64>,
    ) -> i64 {
        let n = self.shares.active[dom.index()].len() as i64;
        let counted = if self.is(CreditVersion::Xen2007) { 1 } else { n };
        let weight = i64::from(host.doms[dom.index()].weight) * counted;
        pot.weight_left -= weight;
        // No more than a pCPU for each, unless all are in debt.
        let most = n * self.shares.per_slice + div_up(debt * weight, weight_total);
        let most = cap.map_or(most, |cap| most.min(cap));
        let fair = div_up(pot.total * weight, weight_total);
        if fair < most {
            pot.wanting = true;
            return fair;
        }
        if pot.weight_left != 0 {
            pot.total += div_up((fair - most) * weight_total, pot.weight_left);
        }
        if pot.wanting {
            let doms = &mut self.shares.doms;
            if let Some(at) = doms.iter().position(|&d| d == dom) {
                doms[..=at].rotate_right(1);
            }
        }
        most
    }

    /// Gives each active vCPU of `dom` its `share`, and with it its priority.
    fn top_up(&mut self, cx: &mut SchedContext<'_>, dom: Dom, share: i64, cap: Option<i64>) {
        let slice = self.shares.per_slice;
        let mut at = 0;
        while let Some(&v) = self.shares.active[dom.index()].get(at) {
            at += 1;
            let unit = self.unit(v);
            unit.credit += share;
            let credit = unit.credit;
            if credit < 0 {
                unit.priority = Priority::Over;
                unit.credit = credit.max(-slice);
                if cap.is_some_and(|cap| credit < -cap) && !unit.parked {
                    self.park(cx, v);
                }
            } else {
                let was = std::mem::replace(&mut unit.priority, Priority::Under);
                if was == Priority::Boost {
                    let p = cx.vcpu(v).processor;
                    cx.note(p, v, Note::BoostEnded);
                }
                if self.units[v.index()].parked {
                    self.unpark(cx, v);
                }
                if credit > slice {
                    at -= 1;
                    self.deactivate(cx.host, dom, at);
                }
            }
            self.shares.balance += self.units[v.index()].credit;
        }
    }

    /// Pauses a vCPU that is over its cap (`vcpu_pause_nosync`, `csched_unit_sleep`).
    fn park(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let p = cx.vcpu(v).processor;
        cx.note(p, v, Note::Parked);
        cx.vcpu_mut(v).paused = true;
        self.unit(v).parked = true;
        if cx.is_current(v) {
            cx.tickle(p);
        } else if let Some(at) = self.runqs[p.index()].waiting.iter().position(|&w| w == v) {
            self.dequeue(p, at);
        }
    }

    /// Lets a vCPU go on that is within its cap again. In 4.8 it counts as unparked
    /// already when it is woken, and so is boosted.
    fn unpark(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let early = self.is(CreditVersion::Xen48);
        let unit = self.unit(v);
        unit.parked = !early;
        cx.vcpu_mut(v).paused = unit.moving;
        Scheduler::wake(self, cx, v);
        self.unit(v).parked = false;
    }

    /// Checks the sums over active vCPUs.
    pub(super) fn check_shares(&self, host: &HostState) -> Result<(), String> {
        let mut weight = 0;
        for (active, params) in self.shares.active.iter().zip(&host.doms) {
            let counted = active.len().min(match self.config.version {
                CreditVersion::Xen2007 => 1,
                _ => usize::MAX,
            });
            weight += i64::from(params.weight) * counted as i64;
            if active.iter().any(|v| !self.units[v.index()].active) {
                return Err(format!("a vCPU earns but is not active at {:?}", host.now));
            }
        }
        let earning: usize = self.shares.active.iter().map(Vec::len).sum();
        let doms = self.shares.active.iter().filter(|a| !a.is_empty()).count();
        let active = self.units.iter().filter(|u| u.active).count();
        if weight != self.shares.weight || doms != self.shares.doms.len() || earning != active {
            let sums = (weight, doms, earning, active);
            return Err(format!("{sums:?} for {:?} at {:?}", self.shares, host.now));
        }
        Ok(())
    }
}
