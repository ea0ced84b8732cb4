//! `null`: each vCPU has a pCPU to itself, the control for all experiments.
//!
//! Xen's scheduler of this name does the same (`xen/common/sched/null.c`): a vCPU is
//! bound to a free pCPU for good, those that find none never run. Here a host with
//! more vCPUs than pCPUs is refused when the host is built.

use crate::cpu_set::CpuSet;
use crate::event::SchedTimer;
use crate::ids::{Pcpu, Vcpu};
use crate::sched::context::SchedContext;
use crate::sched::scheduler::{Decision, Scheduler};

/// The null scheduler.
#[derive(Debug, Default)]
pub struct Null {
    owner: Vec<Option<Vcpu>>,
}

impl Null {
    /// A host on which nothing is bound yet.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Finds a pCPU of its own for each vCPU, given where each may run: augmenting paths,
/// so that a pinned vCPU is never shut out by one that could go elsewhere.
///
/// Returns the owner of each of the `pcpus`, or a vCPU for which there is no room.
pub fn assign(allowed: &[CpuSet], pcpus: usize) -> Result<Vec<Option<Vcpu>>, Vcpu> {
    fn place(v: Vcpu, allowed: &[CpuSet], owner: &mut [Option<Vcpu>], seen: &mut CpuSet) -> bool {
        for p in allowed[v.index()].iter() {
            if p.index() >= owner.len() || seen.has(p) {
                continue;
            }
            seen.insert(p);
            let free = match owner[p.index()] {
                None => true,
                Some(other) => place(other, allowed, owner, seen),
            };
            if free {
                owner[p.index()] = Some(v);
                return true;
            }
        }
        false
    }
    let mut owner = vec![None; pcpus];
    for v in (0..allowed.len()).map(|i| Vcpu(i as u16)) {
        if !place(v, allowed, &mut owner, &mut CpuSet::default()) {
            return Err(v);
        }
    }
    Ok(owner)
}

impl Scheduler for Null {
    fn start(&mut self, cx: &mut SchedContext<'_>) {
        let allowed: Vec<CpuSet> = cx.host.vcpus.iter().map(|v| *v.hard()).collect();
        self.owner = assign(&allowed, cx.host.current.len()).unwrap_or_default();
        for (p, owner) in self.owner.iter().enumerate() {
            if let Some(v) = *owner {
                cx.vcpu_mut(v).processor = Pcpu(p as u16);
            }
        }
    }

    fn wake(&mut self, cx: &mut SchedContext<'_>, v: Vcpu) {
        cx.tickle(cx.vcpu(v).processor);
    }

    fn yielded(&mut self, _view: &mut SchedContext<'_>, _v: Vcpu) {}

    fn schedule(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, _prev: Option<Vcpu>) -> Decision {
        let owner = self.owner.get(p.index()).copied().flatten();
        Decision { next: owner.filter(|&v| cx.vcpu(v).runnable()), run_for: None }
    }

    fn context_saved(&mut self, cx: &mut SchedContext<'_>, _p: Pcpu, v: Vcpu) {
        // It may have been woken while it was being switched out.
        if cx.vcpu(v).runnable() {
            cx.tickle(cx.vcpu(v).processor);
        }
    }

    fn timer(&mut self, _view: &mut SchedContext<'_>, _timer: SchedTimer) -> Option<Pcpu> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_vcpu_finds_its_place() {
        // The first two could both take pCPU 0, which the third needs.
        let any = CpuSet::first_n(3);
        let mut owner = assign(&[any, any, CpuSet::only(Pcpu(0))], 3).unwrap();
        assert_eq!(owner[0], Some(Vcpu(2)));
        owner.sort();
        assert_eq!(owner, [Some(Vcpu(0)), Some(Vcpu(1)), Some(Vcpu(2))]);
        assert_eq!(assign(&[any, any, any, any], 3), Err(Vcpu(3)));
    }
}
