//! What small-first keeps, and the order of those who wait.

use lowtail_engine::{Duration, Time};
use lowtail_policy as policy;

use super::config::{Params, SmallFirstConfig, WeightPer};
use super::fair_class::FairClass;
use super::limits::Pauses;
use super::queue::Queues;
use super::share::Shares;
use crate::cpu_set::CpuSet;
use crate::event::SchedTimer;
use crate::host_state::HostState;
use crate::ids::{Dom, Pcpu, Vcpu};

/// A pCPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cpu {
    pub(super) rule: policy::LtPcpu,
    /// Up to when its current vCPU has been charged.
    pub(super) charged_to: Time,
    /// The end of the current turn.
    pub(super) until: Time,
    /// When it will be asked again whether somebody may interrupt.
    pub(super) retry: Option<Time>,
    /// Its current vCPU has just yielded.
    pub(super) yielded: bool,
    /// Who woke while it was idle, and runs when it has woken up: nobody else takes that vCPU meanwhile, as the kernel puts it into the
    /// queue of that CPU alone.
    pub(super) given: Option<Vcpu>,
}

/// The small-first scheduler.
#[derive(Debug)]
pub struct SmallFirst {
    pub(super) params: Params,
    pub(super) weight_per: WeightPer,
    pub(super) cpus: Vec<Cpu>,
    pub(super) vms: Vec<policy::LtVm>,
    pub(super) vcpus: Vec<policy::LtVcpu>,
    /// Runnable vCPUs that do not run.
    pub(super) queues: Queues,
    pub(super) idle: CpuSet,
    pub(super) tickled: CpuSet,
    /// The virtual time of those who run.
    pub(super) vtime_ns: u64,
    pub(super) shares: Shares,
    pub(super) pauses: Pauses,
    pub(super) fair: FairClass,
}

/// A timer of this scheduler's.
pub(super) enum Alarm {
    /// Entitlements are to be worked out again.
    Account,
    /// Somebody may be allowed to interrupt this pCPU now.
    Retry(Pcpu),
    /// This vCPU's cap may let it run again.
    Unpark(Vcpu),
}

impl SmallFirst {
    /// A host on which nothing has run yet.
    pub fn new(config: SmallFirstConfig) -> Self {
        SmallFirst {
            params: config.params,
            weight_per: config.weight_per,
            cpus: Vec::new(),
            vms: Vec::new(),
            vcpus: Vec::new(),
            queues: Queues::default(),
            idle: CpuSet::EMPTY,
            tickled: CpuSet::EMPTY,
            vtime_ns: 0,
            shares: Shares::default(),
            pauses: Pauses::default(),
            fair: FairClass::default(),
        }
    }

    pub(super) fn id(&self, alarm: Alarm) -> SchedTimer {
        SchedTimer(match alarm {
            Alarm::Account => 0,
            Alarm::Retry(p) => 1 + u32::from(p.0),
            Alarm::Unpark(v) => 1 + self.cpus.len() as u32 + u32::from(v.0),
        })
    }

    pub(super) fn alarm(&self, timer: SchedTimer) -> Alarm {
        let cpus = self.cpus.len() as u32;
        match timer.0 {
            0 => Alarm::Account,
            n if n <= cpus => Alarm::Retry(Pcpu((n - 1) as u16)),
            n => Alarm::Unpark(Vcpu((n - 1 - cpus) as u16)),
        }
    }

    /// Whether `v` or its VM has a limit.
    pub(super) fn is_limited(&self, host: &HostState, v: Vcpu) -> bool {
        let vm = &self.vms[host.vcpus[v.index()].dom.index()];
        vm.cap.is_limit() || self.vcpus[v.index()].cap.is_limit()
    }

    /// The best of those who wait and may run on `p`, and of `also`.
    pub(super) fn best(&mut self, host: &HostState, p: Pcpu, also: Option<Vcpu>) -> Option<Vcpu> {
        let now = host.now.as_ns();
        let (Some(first), Some(also)) = (self.queues.first(p, now), also) else {
            return self.queues.first(p, now).or(also);
        };
        let vm = |v: Vcpu| &self.vms[host.vcpus[v.index()].dom.index()];
        let (ours, theirs) = (&self.vcpus[also.index()], &self.vcpus[first.index()]);
        Some(if theirs.before(vm(first), ours, vm(also), now) { first } else { also })
    }

    /// `v` begins to wait.
    pub(super) fn queue(&mut self, host: &HostState, v: Vcpu) {
        let vm = &self.vms[host.vcpus[v.index()].dom.index()];
        self.queues.push(v, &self.vcpus[v.index()], vm);
    }

    /// The virtual time of a VM has changed: those of its vCPUs that wait have another place.
    pub(super) fn requeue(&mut self, host: &HostState, dom: Dom) {
        let vcpus = &host.doms[dom.index()].vcpus;
        if vcpus.len() > 1 {
            for &v in vcpus {
                self.queues.update(v, &self.vcpus[v.index()], &self.vms[dom.index()]);
            }
        }
    }
}

/// The instant at so many nanoseconds.
pub(super) fn at_ns(ns: u64) -> Time {
    Time::ZERO + Duration::from_ns(ns)
}
