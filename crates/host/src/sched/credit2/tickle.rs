//! Whom credit2 interrupts for a vCPU that has become runnable.

use lowtail_engine::Time;

use super::state::{Credit2, ns};
use super::unit::CREDIT_INIT_NS;
use crate::cpu_set::CpuSet;
use crate::ids::{Pcpu, Vcpu};
use crate::sched::context::SchedContext;

/// `CSCHED2_RATELIMIT_TICKLE_TOLERANCE`: a pCPU this close to its rate limit is tickled.
const TICKLE_TOLERANCE_NS: i64 = 50_000;

impl Credit2 {
    /// `runq_tickle`: whom to interrupt for `v`, which has just been put on the queue.
    /// Returns whether there was anybody.
    pub(super) fn tickle_for(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) -> bool {
        let state = cx.vcpu(v);
        let queue = &self.queues[self.units[v.index()].rq];
        // First an idle pCPU of the queue, where the vCPU prefers to be if it has a
        // preference (since 4.10), and best the one where it was before.
        let masks = [state.soft().and(*state.hard()), *state.hard()];
        let first = usize::from(!(self.since_410 && state.has_soft_affinity()));
        let idle = queue.idle.minus(queue.tickled);
        // A core of its own before a thread of one (`smt_idle`).
        let pick = |mask: &CpuSet| cx.host.pick_idle(idle, *mask, state.processor);
        let idler = masks[first..].iter().find_map(pick);
        // Else a busy one that nobody has tickled yet.
        let busy = queue.active.minus(queue.idle).minus(queue.tickled).and(*state.hard());
        let mut limited = None;
        let target = idler.or_else(|| match self.since_410 {
            true => self.best_victim(cx, v, busy, &mut limited),
            false => self.lowest_credit(cx, v, busy),
        });
        if let (None, Some((end, p))) = (target, limited) {
            cx.end_slice(p, end);
        }
        if let Some(p) = target {
            self.tickle(cx, p);
            self.unit(v).tickled_cpu = Some(p);
        }
        target.is_some()
    }

    /// 4.8.1: the vCPU's own pCPU if its credit is lower at all, else the pCPU with the
    /// lowest credit, if that is lower by the migration resistance.
    fn lowest_credit(&mut self, cx: &SchedContext<'_>, v: Vcpu, busy: CpuSet) -> Option<Pcpu> {
        let now_ns = ns(cx.now());
        let own = cx.vcpu(v).processor;
        let credit = self.credit(Some(v));
        let mut lowest: Option<(i64, Pcpu)> = None;
        if busy.has(own) {
            let current = cx.current(own)?;
            self.burn(now_ns, current);
            if self.credit(Some(current)) < credit {
                return Some(own);
            }
        }
        for p in busy.minus(CpuSet::only(own)).iter() {
            let Some(current) = cx.current(p) else { continue };
            self.burn(now_ns, current);
            let theirs = self.credit(Some(current));
            if lowest.is_none_or(|(c, _)| theirs < c) {
                lowest = Some((theirs, p));
            }
        }
        lowest.filter(|(c, _)| c + self.migrate_resist_ns <= credit).map(|(_, p)| p)
    }

    /// Since 4.10 (`tickle_score`): the own pCPU if preempting there is right and it is
    /// preferred, else the one with the highest score. `limited` as in [`score`](Self::score).
    fn best_victim(
        &mut self,
        cx: &SchedContext<'_>,
        v: Vcpu,
        busy: CpuSet,
        limited: &mut Option<(Time, Pcpu)>,
    ) -> Option<Pcpu> {
        let state = cx.vcpu(v);
        let own = state.processor;
        let mut best: Option<(i64, Pcpu)> = None;
        if busy.has(own) {
            let score = self.score(cx, v, own, limited);
            if score > 0 {
                if state.soft().has(own) {
                    return Some(own);
                }
                best = Some((score, own));
            }
        }
        for p in busy.minus(CpuSet::only(own)).iter() {
            let score = self.score(cx, v, p, limited);
            if score > best.map_or(0, |(s, _)| s) {
                best = Some((score, p));
            }
        }
        best.map(|(_, p)| p)
    }

    /// How right it is for `v` to preempt on `p`; zero or less is not at all. If it is mended and only the rate limit speaks against
    /// it, `limited` becomes `p` and when its limit is over, unless there is one where it is over earlier.
    fn score(
        &mut self,
        cx: &SchedContext<'_>,
        v: Vcpu,
        p: Pcpu,
        limited: &mut Option<(Time, Pcpu)>,
    ) -> i64 {
        let Some(current) = cx.current(p) else { return -1 };
        let now_ns = ns(cx.now());
        let theirs = cx.vcpu(current);
        let ran_ns = now_ns - ns(theirs.since);
        let limit_ns = self.ratelimit_ns - TICKLE_TOLERANCE_NS;
        if !self.mended && limit_ns > 0 && ran_ns <= limit_ns {
            return -1;
        }
        self.burn(now_ns, current);
        let state = cx.vcpu(v);
        let mut score = self.credit(Some(v)) - self.credit(Some(current));
        if state.processor != p {
            score -= self.migrate_resist_ns;
        }
        // No tolerance: a pCPU that is tickled earlier refuses, and sets its timer to 500 us at least.
        if self.mended && score > 0 && ran_ns < self.ratelimit_ns {
            let end = theirs.since + self.config.ratelimit;
            if limited.is_none_or(|(first, _)| end < first) {
                *limited = Some((end, p));
            }
            return -1;
        }
        if score > 0 {
            score += CREDIT_INIT_NS * i64::from(state.soft().has(p));
            score += CREDIT_INIT_NS * i64::from(!theirs.soft().has(p));
        }
        score
    }
}
