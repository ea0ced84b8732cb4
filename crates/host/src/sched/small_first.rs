//! `small-first`: lowtail's own scheduler. The rule is `policy/vcpu.h`, the same lines that
//! run in the kernel; this is its shell: queues, timers, and which pCPU.
//!
//! A queue for each set of pCPUs that vCPUs may run on. A vCPU that wakes goes to an idle pCPU if there is one, and to no
//! other; else a small one interrupts somebody, where it ran last or on one of the next pCPUs, whose preemption bucket allows
//! it; else a timer is set for the moment when one does.
//! What decides at the end of a stretch (a slice, a grant, a block, a yield) is the order of
//! the queue alone; only what interrupts a stretch pays for a preemption.

mod config;
mod fair_class;
mod fair_turn;
mod heap;
mod limits;
mod place;
mod queue;
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
use fair_class::FairClass;
pub(crate) use limits::check as check_limits;
use limits::{Limits, Pauses};
use queue::Queues;
use share::Shares;
pub use state::SmallFirst;
use state::{Alarm, Cpu, at_ns};

impl SmallFirst {
    /// `v` has run on `p` until now.
    fn charge(&mut self, host: &HostState, p: Pcpu, v: Vcpu) {
        let state = &host.vcpus[v.index()];
        let (cpu, vm) = (&mut self.cpus[p.index()], &mut self.vms[state.dom.index()]);
        let ran = host.now.since(cpu.charged_to).as_ns();
        cpu.charged_to = host.now;
        self.vcpus[v.index()].charge(vm, ran, host.now.as_ns());
        if state.blocked {
            self.vcpus[v.index()].block(vm, host.now.as_ns());
            self.shares.wants_less(state.dom, host.now);
        }
        self.requeue(host, state.dom);
    }

    /// Gives `v` a stretch, as its tokens and its VM's cap allow. `None` if it is to be looked
    /// for another: `v` has become large, or is parked.
    fn stretch(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, v: Vcpu) -> Option<u64> {
        let now = cx.now().as_ns();
        let (unit, vm) = (&mut self.vcpus[v.index()], &mut self.vms[cx.vcpu(v).dom.index()]);
        let stretch = unit.grant(vm, &self.params, now);
        if stretch == 0 {
            self.queues.update(v, unit, vm);
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
        cx.vcpu_mut(v).paused = true;
        self.pauses.begin(cx.host, v);
        self.queues.remove(v);
        cx.note(p, v, Note::Parked);
        cx.arm(self.id(Alarm::Unpark(v)), at_ns(when));
        None
    }

    /// Who runs on `p` now that nobody has a claim to it but by order; `prev` is in the order
    /// if it can go on.
    fn choose(
        &mut self,
        cx: &mut SchedContext<'_>,
        p: Pcpu,
        prev: Option<Vcpu>,
    ) -> Option<(Vcpu, u64)> {
        loop {
            let prev = prev.filter(|&v| cx.vcpu(v).runnable());
            let best = match self.cpus[p.index()].yielded {
                // Others first, whoever they are.
                true => self.best(cx.host, p, None).or(prev),
                false => self.best(cx.host, p, prev),
            };
            let v = best?;
            if let Some(stretch) = self.stretch(cx, p, v) {
                return Some((v, stretch));
            }
        }
    }

    /// `v`, which woke while `p` was idle, or somebody else if a limit stops `v`. Whoever has come meanwhile is compared with it
    /// when it runs.
    fn begin_given(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, v: Vcpu) -> Option<(Vcpu, u64)> {
        let mut stretch = self.stretch(cx, p, v);
        if stretch.is_none() && !cx.vcpu(v).paused {
            // It has become large, and large ones need no tokens.
            stretch = self.stretch(cx, p, v);
        }
        let Some(stretch) = stretch else { return self.choose(cx, p, None) };
        if self.queues.first(p, cx.now().as_ns()).is_some() {
            self.retry(cx, p, cx.now().as_ns());
        }
        Some((v, stretch))
    }

    /// Who runs on `p`, `prev` being in the middle of its stretch: somebody who may interrupt
    /// it, or itself for the rest.
    fn interrupt(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, prev: Vcpu) -> Option<(Vcpu, u64)> {
        if let Some(v) = self.interrupter(cx, p, prev) {
            let vm = &mut self.vms[cx.vcpu(v).dom.index()];
            let cpu = &mut self.cpus[p.index()];
            let unit = &self.vcpus[v.index()];
            if unit.preempt_take(vm, &mut cpu.rule, &self.params)
                && let Some(stretch) = self.stretch(cx, p, v)
            {
                return Some((v, stretch));
            }
        }
        let unit = &self.vcpus[prev.index()];
        if unit.class() == Class::Large && !self.is_limited(cx.host, prev) {
            // The rest of its turn, whatever it is.
            return Some((prev, u64::from(self.params.slice_ns)));
        }
        // Its grants went back when it was charged.
        match self.stretch(cx, p, prev) {
            Some(stretch) => Some((prev, stretch)),
            None => self.choose(cx, p, Some(prev)),
        }
    }
}

impl Scheduler for SmallFirst {
    fn start(&mut self, cx: &mut SchedContext<'_>) {
        let host = &mut *cx.host;
        let now = host.now.as_ns();
        let cpu = Cpu {
            rule: policy::LtPcpu::new(&self.params, now),
            charged_to: host.now,
            until: host.now,
            retry: None,
            yielded: false,
            given: None,
        };
        self.cpus = vec![cpu; host.current.len()];
        self.idle = host.pcpus;
        // What is refused here has been refused before.
        let limits = Limits::new(host).unwrap_or_default();
        self.shares = Shares::new(host, self.weight_per, &limits);
        self.vms = self.shares.vms(host, &self.params, &limits);
        self.vcpus = (0..host.vcpus.len())
            .map(|i| policy::LtVcpu {
                cap: limits.vcpu(host, Vcpu(i as u16)),
                ..policy::LtVcpu::new(&self.params, now)
            })
            .collect();
        self.pauses = Pauses::new(host);
        self.fair = FairClass::new(host);
        self.queues = Queues::new(host);
        cx.arm(self.id(Alarm::Account), cx.now() + share::PERIOD);
    }

    fn wake(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let (now, dom, running) = (cx.now(), cx.vcpu(v).dom, cx.vcpu(v).running);
        if self.fair.has(dom) {
            if !running {
                self.place_fair(cx, v);
            }
            return;
        }
        let vm = &mut self.vms[dom.index()];
        self.vcpus[v.index()].wake(vm, &self.params, self.vtime_ns, now.as_ns());
        self.shares.wants_more(dom, now);
        self.requeue(cx.host, dom);
        // It may still be on its way out of a pCPU; it queues up when it has left.
        if !running {
            self.place_woken(cx, v);
        }
    }

    fn kicked(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        let unit = &mut self.vcpus[v.index()];
        if unit.is_completion_wakeup == 0 {
            return;
        }
        unit.kick();
        if self.queues.has(v) {
            self.place(cx, v);
        }
    }

    fn yielded(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        self.cpus[cx.vcpu(v).processor.index()].yielded = true;
        if !self.is_fair(cx.host, v) {
            self.vcpus[v.index()].yielded();
        }
    }

    fn schedule(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision {
        self.tickled.remove(p);
        let of_a_vm = prev.filter(|&v| !self.is_fair(cx.host, v));
        if let Some(v) = of_a_vm {
            self.charge(cx.host, p, v);
        }
        if let Some(decision) = self.next_fair(cx, p, prev) {
            return decision;
        }
        let prev = of_a_vm;
        let cpu = &self.cpus[p.index()];
        let over = cx.now() >= cpu.until || cpu.yielded;
        let given = self.cpus[p.index()].given.take();
        let next = match (given, prev.filter(|&v| cx.vcpu(v).runnable())) {
            (Some(v), _) => self.begin_given(cx, p, v),
            (None, Some(prev)) if !over => self.interrupt(cx, p, prev),
            (None, prev) => self.choose(cx, p, prev),
        };
        let cpu = &mut self.cpus[p.index()];
        cpu.yielded = false;
        cpu.charged_to = cx.now();
        if let Some(left) = prev.filter(|&prev| next.is_none_or(|(v, _)| v != prev)) {
            self.vcpus[left.index()].preempt_over(&mut cpu.rule, cx.now().as_ns());
        }
        let Some((v, stretch)) = next else {
            self.idle.insert(p);
            return Decision { next: None, run_for: None };
        };
        self.idle.remove(p);
        let (unit, vm) = (&self.vcpus[v.index()], &self.vms[cx.vcpu(v).dom.index()]);
        if over || Some(v) != prev {
            cpu.until = cx.now() + Duration::from_ns(unit.turn(&self.params, stretch));
        }
        let left = cpu.until.saturating_since(cx.now());
        let run_for = Duration::from_ns(stretch).min(left.max(Duration::from_ns(1)));
        cx.vcpu_mut(v).processor = p;
        if Some(v) != prev {
            self.queues.remove(v);
        }
        self.vtime_ns = unit.vtime(vm, &self.params, self.vtime_ns, cx.now().as_ns());
        Decision { next: Some(v), run_for: Some(run_for) }
    }

    fn context_saved(&mut self, cx: &mut SchedContext<'_>, _p: Pcpu, v: Vcpu) {
        if !cx.vcpu(v).runnable() {
            return;
        }
        if self.is_fair(cx.host, v) {
            return self.place_fair(cx, v);
        }
        self.queue(cx.host, v);
        self.place(cx, v);
    }

    fn timer(&mut self, cx: &mut SchedContext<'_>, timer: SchedTimer) -> Option<Pcpu> {
        match self.alarm(timer) {
            Alarm::Account => {
                self.shares.account(&mut self.vms, cx.now());
                cx.arm(timer, cx.now() + share::PERIOD);
            }
            Alarm::Retry(p) => {
                self.cpus[p.index()].retry = None;
                self.look(cx, p);
                return Some(p);
            }
            Alarm::Unpark(v) => {
                self.pauses.end(cx.now(), v);
                let state = cx.vcpu_mut(v);
                state.paused = false;
                // It may still be on its way out.
                if !state.running {
                    self.queue(cx.host, v);
                    self.place(cx, v);
                }
            }
        }
        None
    }

    fn cgroup_stats(&self, host: &HostState, cgroup: Cgroup) -> Option<CgroupStats> {
        self.pauses.stats(host, cgroup)
    }

    fn check(&self, host: &HostState) -> Result<(), String> {
        let given: Vec<Vcpu> = self.cpus.iter().filter_map(|cpu| cpu.given).collect();
        for (i, state) in host.vcpus.iter().enumerate() {
            let v = Vcpu(i as u16);
            let right = state.runnable() && !state.running;
            let given = given.iter().filter(|&&other| other == v).count();
            let waits = usize::from(self.queues.has(v)) + usize::from(self.fair.waits(v));
            if waits + given != usize::from(right) {
                return Err(format!("{v:?} is to wait: {right}; {state:?}"));
            }
            self.queues.check(v, &self.vcpus[i], &self.vms[state.dom.index()])?;
        }
        for (p, current) in host.current.iter().enumerate() {
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
