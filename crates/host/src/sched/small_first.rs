//! `small-first`: lowtail's own scheduler. The rule is `policy/vcpu.h`, the same lines that
//! run in the kernel; this is its shell: queues, timers, and which pCPU.
//!
//! One queue for all pCPUs, looked through for the best that may run here. A vCPU that wakes
//! goes to an idle pCPU if there is one; else a small one interrupts somebody, on a pCPU
//! whose preemption bucket allows it; else a timer is set for the moment when one does.
//! What decides at the end of a stretch (a slice, a grant, a block, a yield) is the order of
//! the queue alone; only what interrupts a stretch pays for a preemption.

mod config;
mod limits;
mod place;
mod share;
mod state;

use lowtail_engine::Duration;
use lowtail_policy::{self as policy, Class, NEVER};

use crate::cgroup::CgroupStats;
use crate::event::SchedTimer;
use crate::host_state::HostState;
use crate::ids::{Cgroup, Pcpu, Vcpu};
use crate::record::Note;
use crate::sched::context::SchedContext;
use crate::sched::scheduler::{Decision, Scheduler};
pub use config::{Params, SmallFirstConfig, WeightPer};
pub(crate) use limits::check as check_limits;
use limits::{Limits, Pauses};
use share::Shares;
pub use state::SmallFirst;
use state::{Alarm, Cpu, at_ns};

impl SmallFirst {
    /// `v` has run on `p` until now.
    fn charge(&mut self, facts: &HostState, p: Pcpu, v: Vcpu) {
        let state = &facts.vcpus[v.index()];
        let (cpu, vm) = (&mut self.cpus[p.index()], &mut self.vms[state.dom.index()]);
        let ran = facts.now.since(cpu.charged_to).as_ns();
        cpu.charged_to = facts.now;
        self.vcpus[v.index()].charge(vm, ran, facts.now.as_ns());
        if state.blocked {
            self.vcpus[v.index()].block(vm, facts.now.as_ns());
            self.shares.wants_less(state.dom, facts.now);
        }
    }

    /// Gives `v` a stretch, as its tokens and its VM's cap allow. `None` if it is to be looked
    /// for another: `v` has become large, or is parked.
    fn stretch(&mut self, view: &mut SchedContext<'_>, p: Pcpu, v: Vcpu) -> Option<u64> {
        let now = view.now().as_ns();
        let (unit, vm) = (&mut self.vcpus[v.index()], &mut self.vms[view.vcpu(v).dom.index()]);
        let stretch = unit.grant(vm, &self.params, now);
        if stretch == 0 {
            return None;
        }
        let capped = unit.cap_grant(vm, &self.params, stretch, now);
        if capped > 0 {
            return Some(stretch.min(capped));
        }
        // What it was granted goes back unused.
        unit.charge(vm, 0, now);
        let when = match unit.cap_when(vm, &self.params) {
            NEVER => now + 1_000_000,
            when => when.max(now + 1),
        };
        view.vcpu_mut(v).paused = true;
        self.pauses.begin(view.facts, v);
        self.waiting.retain(|&other| other != v);
        view.note(p, v, Note::Parked);
        view.arm(self.id(Alarm::Unpark(v)), at_ns(when));
        None
    }

    /// Who runs on `p` now that nobody has a claim to it but by order; `prev` is in the order
    /// if it can go on.
    fn choose(
        &mut self,
        view: &mut SchedContext<'_>,
        p: Pcpu,
        prev: Option<Vcpu>,
    ) -> Option<(Vcpu, u64)> {
        loop {
            let prev = prev.filter(|&v| view.vcpu(v).runnable());
            let best = match self.cpus[p.index()].yielded {
                // Others first, whoever they are.
                true => self.best(view.facts, p, None).or(prev),
                false => self.best(view.facts, p, prev),
            };
            let v = best?;
            if let Some(stretch) = self.stretch(view, p, v) {
                return Some((v, stretch));
            }
        }
    }

    /// Who runs on `p`, `prev` being in the middle of its stretch: somebody who may interrupt
    /// it, or itself for the rest.
    fn interrupt(
        &mut self,
        view: &mut SchedContext<'_>,
        p: Pcpu,
        prev: Vcpu,
    ) -> Option<(Vcpu, u64)> {
        if let Some(v) = self.interrupter(view, p, prev) {
            let vm = &mut self.vms[view.vcpu(v).dom.index()];
            let cpu = &mut self.cpus[p.index()];
            let unit = &self.vcpus[v.index()];
            if unit.preempt_take(vm, &mut cpu.rule, &self.params)
                && let Some(stretch) = self.stretch(view, p, v)
            {
                return Some((v, stretch));
            }
        }
        let unit = &self.vcpus[prev.index()];
        if unit.class() == Class::Large && !self.is_limited(view.facts, prev) {
            // The rest of its turn, whatever it is.
            return Some((prev, u64::from(self.params.slice_ns)));
        }
        // Its grants went back when it was charged.
        match self.stretch(view, p, prev) {
            Some(stretch) => Some((prev, stretch)),
            None => self.choose(view, p, Some(prev)),
        }
    }
}

impl Scheduler for SmallFirst {
    fn start(&mut self, view: &mut SchedContext<'_>) {
        let facts = &mut *view.facts;
        let now = facts.now.as_ns();
        let cpu = Cpu {
            rule: policy::Pcpu::new(&self.params, now),
            charged_to: facts.now,
            until: facts.now,
            retry: None,
            yielded: false,
        };
        self.cpus = vec![cpu; facts.current.len()];
        self.idle = facts.pcpus;
        // What is refused here has been refused before.
        let limits = Limits::new(facts).unwrap_or_default();
        self.shares = Shares::new(facts, self.weight_per, &limits);
        self.vms = self.shares.vms(facts, &self.params, &limits);
        self.vcpus = (0..facts.vcpus.len())
            .map(|i| policy::Vcpu {
                cap: limits.vcpu(facts, Vcpu(i as u16)),
                ..policy::Vcpu::new(&self.params, now)
            })
            .collect();
        self.pauses = Pauses::new(facts);
        self.waiting.reserve(facts.vcpus.len());
        view.arm(self.id(Alarm::Account), view.now() + share::PERIOD);
    }

    fn wake(&mut self, view: &mut SchedContext<'_>, v: Vcpu) {
        let (now, state) = (view.now(), *view.vcpu(v));
        let vm = &mut self.vms[state.dom.index()];
        self.vcpus[v.index()].wake(vm, &self.params, self.vtime_ns, now.as_ns());
        self.shares.wants_more(state.dom, now);
        // It may still be on its way out of a pCPU; it queues up when it has left.
        if !state.running {
            self.waiting.push(v);
            self.place(view, v);
        }
    }

    fn kicked(&mut self, view: &mut SchedContext<'_>, v: Vcpu) {
        let unit = &mut self.vcpus[v.index()];
        if unit.is_completion_wakeup == 0 {
            return;
        }
        unit.kick();
        let state = view.vcpu(v);
        if !state.running && !state.paused {
            self.place(view, v);
        }
    }

    fn yielded(&mut self, view: &mut SchedContext<'_>, v: Vcpu) {
        self.cpus[view.vcpu(v).processor.index()].yielded = true;
        self.vcpus[v.index()].yielded();
    }

    fn schedule(&mut self, view: &mut SchedContext<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision {
        self.tickled.remove(p);
        if let Some(v) = prev {
            self.charge(view.facts, p, v);
        }
        let cpu = &self.cpus[p.index()];
        let over = view.now() >= cpu.until || cpu.yielded;
        let next = match prev.filter(|&v| view.vcpu(v).runnable()) {
            Some(prev) if !over => self.interrupt(view, p, prev),
            prev => self.choose(view, p, prev),
        };
        let cpu = &mut self.cpus[p.index()];
        cpu.yielded = false;
        cpu.charged_to = view.now();
        let Some((v, stretch)) = next else {
            self.idle.insert(p);
            return Decision { next: None, run_for: None };
        };
        self.idle.remove(p);
        let (unit, vm) = (&self.vcpus[v.index()], &self.vms[view.vcpu(v).dom.index()]);
        if over || Some(v) != prev {
            cpu.until = view.now() + Duration::from_ns(unit.turn(&self.params, stretch));
        }
        let left = cpu.until.saturating_since(view.now());
        let run_for = Duration::from_ns(stretch).min(left.max(Duration::from_ns(1)));
        view.vcpu_mut(v).processor = p;
        if Some(v) != prev {
            self.waiting.retain(|&other| other != v);
        }
        self.vtime_ns = unit.vtime(vm, &self.params, self.vtime_ns, view.now().as_ns());
        Decision { next: Some(v), run_for: Some(run_for) }
    }

    fn context_saved(&mut self, view: &mut SchedContext<'_>, _p: Pcpu, v: Vcpu) {
        if view.vcpu(v).runnable() {
            self.waiting.push(v);
            self.place(view, v);
        }
    }

    fn timer(&mut self, view: &mut SchedContext<'_>, timer: SchedTimer) {
        match self.alarm(timer) {
            Alarm::Account => {
                self.shares.account(&mut self.vms, view.now());
                view.arm(timer, view.now() + share::PERIOD);
            }
            Alarm::Retry(p) => {
                self.cpus[p.index()].retry = None;
                self.look(view, p);
            }
            Alarm::Unpark(v) => {
                self.pauses.end(view.now(), v);
                let state = view.vcpu_mut(v);
                state.paused = false;
                // It may still be on its way out.
                if !state.running {
                    self.waiting.push(v);
                    self.place(view, v);
                }
            }
        }
    }

    fn cgroup_stats(&self, facts: &HostState, cgroup: Cgroup) -> Option<CgroupStats> {
        self.pauses.stats(facts, cgroup)
    }

    fn check(&self, facts: &HostState) -> Result<(), String> {
        for (i, state) in facts.vcpus.iter().enumerate() {
            let v = Vcpu(i as u16);
            let places = self.waiting.iter().filter(|&&other| other == v).count();
            let right = usize::from(state.runnable() && !state.running);
            if places != right {
                return Err(format!("{v:?} waits {places} times: {state:?}"));
            }
        }
        for (p, current) in facts.current.iter().enumerate() {
            if self.idle.has(Pcpu(p as u16)) != current.is_none() {
                return Err(format!("pCPU {p}: idle {:?}, runs {current:?}", self.idle));
            }
        }
        let buckets = self
            .vcpus
            .iter()
            .map(|v| &v.small)
            .chain(self.vcpus.iter().map(|v| &v.cap.run))
            .chain(self.vms.iter().flat_map(|vm| [&vm.small, &vm.preempt, &vm.cap.run]));
        for bucket in buckets.chain(self.cpus.iter().map(|cpu| &cpu.rule.preempt)) {
            if bucket.tokens_ns > u64::from(bucket.burst_ns) {
                return Err(format!("more than its burst: {bucket:?}"));
            }
        }
        Ok(())
    }
}
