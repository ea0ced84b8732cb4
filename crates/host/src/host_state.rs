//! The state of a host that schedulers decide on.

use lowtail_engine::Time;

use crate::cgroup::{CgroupConfig, Thread};
use crate::cpu_set::CpuSet;
use crate::ids::{Dom, Pcpu, Vcpu};

/// One vCPU as the hypervisor knows it.
#[derive(Debug, Clone, Copy)]
pub struct VcpuState {
    /// Whose vCPU it is.
    pub dom: Dom,
    /// The pCPU on which it runs, ran last, or whose queue it waits in. Schedulers set it.
    pub processor: Pcpu,
    /// Where it may run (hard affinity). Never empty.
    pub hard: CpuSet,
    /// Where it is, and as what, if the host is a Linux kernel.
    pub thread: Thread,
    /// Where it would rather run (soft affinity); all pCPUs if it does not care.
    pub soft: CpuSet,
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

    /// Whether it prefers some of the pCPUs that it may use: Xen's `has_soft_affinity`.
    pub fn has_soft_affinity(&self) -> bool {
        let useful = self.soft.and(self.hard);
        !useful.is_empty() && useful != self.hard
    }
}

/// One domain's scheduling parameters.
#[derive(Debug, Clone)]
pub struct DomParams {
    /// Share of the processors, relative to other domains. 1 to 65535, default 256.
    pub weight: u16,
    /// Upper limit in percent of one pCPU, 0 for none.
    pub cap_percent: u16,
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
    /// All domains, by [`Dom::index`].
    pub doms: Vec<DomParams>,
    /// All control groups, by [`Cgroup::index`](crate::ids::Cgroup::index).
    pub cgroups: Vec<CgroupConfig>,
    /// Who runs where, by [`Pcpu::index`]: Xen's `curr_on_cpu`. From the moment of the
    /// decision on, that is, also while the context is being switched.
    pub current: Vec<Option<Vcpu>>,
    /// pCPUs of one socket, by socket number.
    pub sockets: Vec<CpuSet>,
    /// A core has two hardware threads, a pCPU each: 0 and 1, 2 and 3, as Xen numbers them. Else each pCPU is a core of its own.
    pub smt: bool,
    /// All pCPUs.
    pub pcpus: CpuSet,
}

impl HostState {
    /// The socket that `p` sits in.
    pub fn socket_of(&self, p: Pcpu) -> CpuSet {
        self.sockets.iter().copied().find(|s| s.has(p)).unwrap_or(self.pcpus)
    }

    /// The other pCPU of the core of `p`, if it has one.
    pub fn sibling_of(&self, p: Pcpu) -> Option<Pcpu> {
        self.smt.then_some(Pcpu(p.0 ^ 1))
    }

    /// Those of these idle pCPUs on whose core nobody runs: all of them without SMT.
    pub fn idle_cores(&self, idle: CpuSet) -> CpuSet {
        if self.smt { idle.and(idle.neighbours()) } else { idle }
    }

    /// Of these idle pCPUs, `near` or the next one that `mask` has: one of an idle core, if there is such a one.
    pub fn pick_idle(&self, idle: CpuSet, mask: CpuSet, near: Pcpu) -> Option<Pcpu> {
        let core = self.idle_cores(idle).and(mask).this_or_next(near);
        core.or_else(|| idle.and(mask).this_or_next(near))
    }
}
