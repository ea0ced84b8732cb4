//! The state of a host that schedulers decide on.

use std::sync::Arc;

use lowtail_engine::Time;

use crate::cgroup::{CgroupConfig, Thread};
use crate::cpu_set::CpuSet;
use crate::ids::{Dom, Pcpu, Vcpu};
use crate::topology::{Siblings, Topology};

/// One vCPU as the hypervisor knows it.
#[derive(Debug, Clone)]
pub struct VcpuState {
    /// Whose vCPU it is.
    pub dom: Dom,
    /// The pCPU on which it runs, ran last, or whose queue it waits in. Schedulers set it.
    pub processor: Pcpu,
    /// On which pCPUs it may run.
    pub affinity: Arc<Affinity>,
    /// The guest waits for an event.
    pub blocked: bool,
    /// The scheduler has taken it out of play: parked by a cap, or on the move to
    /// another pCPU. Schedulers set it.
    pub paused: bool,
    /// It has been given a pCPU, and its context is not yet saved.
    pub running: bool,
    /// When it last changed between running, runnable and blocked: Xen's
    /// `runstate.state_entry_time`.
    pub since: Time,
}

impl VcpuState {
    /// Whether it could run if a pCPU were given to it.
    pub fn runnable(&self) -> bool {
        !self.blocked && !self.paused
    }

    /// Where it may run (hard affinity). Never empty.
    pub fn hard(&self) -> &CpuSet {
        &self.affinity.hard
    }

    /// Where it would rather run (soft affinity); all pCPUs if it does not care.
    pub fn soft(&self) -> &CpuSet {
        &self.affinity.soft
    }

    /// Whether it prefers some of the pCPUs that it may use: Xen's `has_soft_affinity`.
    pub fn has_soft_affinity(&self) -> bool {
        self.affinity.prefers
    }
}

/// On which pCPUs a vCPU may run. Those of a host are few, and vCPUs share them, so that who looks at many vCPUs has them in the cache.
#[derive(Debug, PartialEq, Eq)]
pub struct Affinity {
    hard: CpuSet,
    soft: CpuSet,
    /// Whether `soft` has some of `hard` and not all.
    prefers: bool,
}

/// The affinities of a host, each once.
#[derive(Debug, Default)]
pub(crate) struct Affinities(Vec<Arc<Affinity>>);

impl Affinities {
    /// That of a vCPU that may run on `hard`, and would rather on `soft`.
    pub(crate) fn of(&mut self, hard: CpuSet, soft: CpuSet) -> Arc<Affinity> {
        let known = self.0.iter().find(|one| one.hard == hard && one.soft == soft);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let useful = soft.and(hard);
        let prefers = !useful.is_empty() && useful != hard;
        let new = Arc::new(Affinity { hard, soft, prefers });
        self.0.push(Arc::clone(&new));
        new
    }
}

/// One domain's scheduling parameters.
#[derive(Debug, Clone)]
pub struct DomParams {
    /// Share of the processors, relative to other domains. 1 to 65535, default 256.
    pub weight: u16,
    /// Upper limit in percent of one pCPU, 0 for none.
    pub cap_percent: u16,
    /// Small-first's VMs run after it, whatever it does: [`VmConfig::fair_class`](crate::VmConfig::fair_class).
    pub fair_class: bool,
    /// Its vCPUs.
    pub vcpus: Vec<Vcpu>,
}

/// The state of the host that schedulers look at.
#[derive(Debug)]
pub struct HostState {
    /// Now.
    pub now: Time,
    /// All vCPUs, by [`Vcpu::index`].
    pub vcpus: Vec<VcpuState>,
    /// Where each vCPU is, and as what, if the host is a Linux kernel.
    pub threads: Vec<Thread>,
    /// All domains, by [`Dom::index`].
    pub doms: Vec<DomParams>,
    /// All control groups, by [`Cgroup::index`](crate::ids::Cgroup::index).
    pub cgroups: Vec<CgroupConfig>,
    /// Who runs where, by [`Pcpu::index`]: Xen's `curr_on_cpu`. From the moment of the
    /// decision on, that is, also while the context is being switched.
    pub current: Vec<Option<Vcpu>>,
    /// What pCPUs share.
    pub topology: Topology,
    /// The other thread of each core.
    pub(crate) siblings: Siblings,
    /// All pCPUs.
    pub pcpus: CpuSet,
}

impl HostState {
    /// The other pCPU of the core of `p`, if it has one.
    pub fn sibling_of(&self, p: Pcpu) -> Option<Pcpu> {
        self.siblings.of(p)
    }

    /// Those of these idle pCPUs on whose core nobody runs: all of them without SMT.
    pub fn idle_cores(&self, idle: CpuSet) -> CpuSet {
        self.siblings.cores(idle)
    }

    /// Of these idle pCPUs, `near` or the next one that `mask` has: one of an idle core, if there is such a one.
    pub fn pick_idle(&self, idle: CpuSet, mask: CpuSet, near: Pcpu) -> Option<Pcpu> {
        let core = self.idle_cores(idle).and(mask).this_or_next(near);
        core.or_else(|| idle.and(mask).this_or_next(near))
    }
}
