//! Threads of the host's fair class, which run before all that small-first schedules: Linux asks its classes one after the other
//! (`for_each_class`, kernel/sched/sched.h), and small-first's is the last. Among themselves they take turns, the first come first.

use lowtail_engine::Duration;

use super::state::SmallFirst;
use crate::host_state::HostState;
use crate::ids::{Pcpu, Vcpu};
use crate::sched::context::SchedContext;
use crate::sched::scheduler::Decision;

/// The longest turn of one beside another: the base slice on hosts of eight CPUs (`sysctl_sched_base_slice`, kernel/sched/fair.c).
const SLICE: Duration = Duration::from_ms(3);

impl SmallFirst {
    /// Whether `v` is of the fair class.
    pub(super) fn is_fair(&self, host: &HostState, v: Vcpu) -> bool {
        self.fair.has(host.vcpus[v.index()].dom)
    }

    /// `v`, of the fair class, can run: on an idle pCPU, or in the place of a VM's.
    pub(super) fn place_fair(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        self.fair.push(v);
        let own = cx.vcpu(v).processor;
        let may = *cx.vcpu(v).hard();
        let of_a_vm = |&p: &Pcpu| {
            may.has(p)
                && !self.tickled.has(p)
                && cx.current(p).is_some_and(|v| !self.is_fair(cx.host, v))
        };
        let all = (0..self.cpus.len()).map(|p| Pcpu(p as u16));
        let place = self.idle_for(cx, v).or_else(|| [own].into_iter().chain(all).find(of_a_vm));
        if let Some(p) = place {
            self.tickled.insert(p);
            cx.tickle(p);
        }
    }

    /// The thread of the fair class that `p` runs next, if there is one; `prev` ran there.
    pub(super) fn next_fair(
        &mut self,
        cx: &mut SchedContext<'_>,
        p: Pcpu,
        prev: Option<Vcpu>,
    ) -> Option<Decision> {
        let now = cx.now();
        let goes_on = prev.filter(|&v| self.is_fair(cx.host, v) && cx.vcpu(v).runnable());
        let cpu = self.cpus[p.index()];
        let next = match goes_on {
            Some(prev) if now < cpu.until && !cpu.yielded => prev,
            goes_on => self.fair.take(cx.host, p).or(goes_on)?,
        };
        let cpu = &mut self.cpus[p.index()];
        if Some(next) != prev || now >= cpu.until {
            cpu.until = now + SLICE;
        }
        cpu.yielded = false;
        cpu.charged_to = now;
        if let Some(left) = prev.filter(|&v| !self.fair.has(cx.host.vcpus[v.index()].dom)) {
            self.vcpus[left.index()].preempt_over(&mut cpu.rule, now.as_ns());
        }
        let run_for = Some(cpu.until.since(now));
        self.idle.remove(p);
        cx.vcpu_mut(next).processor = p;
        // Who was to run here waits as all others do.
        if let Some(v) = self.cpus[p.index()].given.take() {
            self.queue(cx.host, v);
            self.place(cx, v);
        }
        Some(Decision { next: Some(next), run_for })
    }
}
