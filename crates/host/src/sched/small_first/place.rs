//! Where a vCPU that has become runnable goes, and who may interrupt whom.

use lowtail_policy::{Class, NEVER};

use super::state::{Alarm, SmallFirst, at_ns};
use crate::ids::{Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;

/// So many pCPUs are asked whether a vCPU that wakes may interrupt who runs there, as in `bpf/vcpu_wake.h` (which takes the first that
/// says yes).
const LOOK: usize = 16;

impl SmallFirst {
    /// The idle pCPU on which `v` is to run, if there is one.
    pub(super) fn idle_for(&self, cx: &SchedContext<'_>, v: Vcpu) -> Option<Pcpu> {
        if self.idle.is_empty() {
            return None;
        }
        let state = cx.vcpu(v);
        // A core of its own if there is one, as `scx_bpf_select_cpu_dfl()` of Linux.
        let free = self.idle.minus(self.tickled);
        let within = |mask| cx.host.pick_idle(free, mask, state.processor);
        within(state.soft().and(*state.hard())).or_else(|| within(*state.hard()))
    }

    /// Finds a pCPU for `v`, which wakes: an idle one, which runs it and nobody else, or one as for all who wait.
    pub(super) fn place_woken(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        if let Some(p) = self.idle_for(cx, v) {
            self.cpus[p.index()].given = Some(v);
            self.tickled.insert(p);
            cx.tickle(p);
            return;
        }
        self.queue(cx.host, v);
        self.place(cx, v);
    }

    /// Finds a pCPU for `v`, which has begun to wait: an idle one, or one where it may
    /// interrupt; or sets the timer for that.
    pub(super) fn place(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        if let Some(p) = self.idle_for(cx, v) {
            self.tickled.insert(p);
            cx.tickle(p);
            return;
        }
        let own = cx.vcpu(v).processor;
        // The pCPU where it ran last, or the one with most preemptions to spare of this and the next ones.
        let (mut victim, mut richest) = (None, 0);
        let (mut soonest, mut soonest_at) = (None, NEVER);
        let pcpus = self.cpus.len();
        let first = if pcpus > LOOK { own.index() } else { 0 };
        let near = (first..first + pcpus.min(LOOK)).map(|p| Pcpu((p % pcpus) as u16));
        for p in [own].into_iter().chain(near.filter(|&p| p != own)) {
            if !cx.vcpu(v).hard().has(p) || self.tickled.has(p) {
                continue;
            }
            let Some(current) = cx.current(p) else { continue };
            if self.is_fair(cx.host, current) {
                continue;
            }
            let when = self.may_interrupt(cx, p, v, current);
            let tokens = self.cpus[p.index()].rule.preempt.tokens_ns;
            if when == 0 && (p == own || tokens > richest) {
                (victim, richest) = (Some(p), tokens);
                if p == own {
                    break;
                }
            }
            if when < soonest_at || (when == soonest_at && soonest.is_none_or(|other| p < other)) {
                (soonest, soonest_at) = (Some(p), when);
            }
        }
        if let Some(p) = victim {
            self.tickled.insert(p);
            cx.tickle(p);
        } else if let Some(p) = soonest.filter(|_| soonest_at != NEVER) {
            cx.note(p, v, Note::NotTickled);
            self.retry(cx, p, soonest_at);
        }
    }

    /// When `v` may interrupt `current` on `p`: 0 is now, [`NEVER`] is not as things are.
    fn may_interrupt(&mut self, cx: &SchedContext<'_>, p: Pcpu, v: Vcpu, current: Vcpu) -> u64 {
        let now = cx.now();
        let cpu = &mut self.cpus[p.index()];
        let ran = now.since(cpu.charged_to).as_ns();
        let unit = &self.vcpus[v.index()];
        let dom = cx.vcpu(v).dom;
        let theirs = &self.vms[cx.vcpu(current).dom.index()];
        let current = (&self.vcpus[current.index()], theirs);
        let vm = &self.vms[dom.index()];
        let beats = unit.beats_when(vm, current, &self.params, ran, now.as_ns());
        if beats > 0 {
            return beats;
        }
        let vm = &mut self.vms[dom.index()];
        unit.preempt_when(vm, &mut cpu.rule, &self.params, now.as_ns())
    }

    /// The best of those who may interrupt `current` on `p` now. If there is none, the timer
    /// is set for the first who may.
    pub(super) fn interrupter(
        &mut self,
        cx: &mut SchedContext<'_>,
        p: Pcpu,
        current: Vcpu,
    ) -> Option<Vcpu> {
        let now = cx.now().as_ns();
        let (mut best, mut soonest) = (None, NEVER);
        // A large one does not interrupt a small one.
        let is_large = self.vcpus[current.index()].class() == Class::Large;
        let classes = if is_large { &[true, false][..] } else { &[true] };
        for i in self.queues.range(p) {
            for &is_small in classes {
                let mut walk = self.queues.walk(i, is_small, now);
                while let Some((key, v)) = self.queues.next(&mut walk) {
                    match self.may_interrupt(cx, p, v, current) {
                        0 => {
                            best = Some(best.map_or((key, v), |best| (key, v).min(best)));
                            break;
                        }
                        when => soonest = soonest.min(when),
                    }
                    // Those behind it have run more.
                    if !is_small && !key.is_late() {
                        break;
                    }
                }
            }
        }
        if best.is_none() && soonest != NEVER {
            self.retry(cx, p, soonest);
        }
        best.map(|(_, v)| v)
    }

    /// Looks whether somebody may interrupt `p` by now.
    pub(super) fn look(&mut self, cx: &mut SchedContext<'_>, p: Pcpu) {
        let Some(current) = cx.current(p) else { return };
        if self.is_fair(cx.host, current) {
            return;
        }
        if !self.tickled.has(p) && self.interrupter(cx, p, current).is_some() {
            self.tickled.insert(p);
            cx.tickle(p);
        }
    }

    /// Sets the timer to look at `p` again at `when`, unless it is set for earlier.
    pub(super) fn retry(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, when: u64) {
        let at = at_ns(when.max(cx.now().as_ns() + 1));
        let retry = &mut self.cpus[p.index()].retry;
        if retry.is_none_or(|set| at < set) {
            *retry = Some(at);
            cx.arm(self.id(Alarm::Retry(p)), at);
        }
    }
}
