//! What a hypervisor asks of its vCPU scheduler.

use lowtail_engine::Duration;

use super::context::SchedContext;
use crate::cgroup::CgroupStats;
use crate::event::SchedTimer;
use crate::host_state::HostState;
use crate::ids::{Cgroup, Pcpu, Vcpu};

/// What a pCPU does until its scheduler is entered next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Who runs; `None` is the idle vCPU.
    pub next: Option<Vcpu>,
    /// When the scheduler wants to be entered again, counted from now; `None` is
    /// "when tickled". Xen's `ret.time`, where a negative value means the same.
    pub run_for: Option<Duration>,
}

/// A hypervisor's vCPU scheduler.
///
/// The host calls these in the order of simulated time, never one inside another.
pub trait Scheduler: Send {
    /// Called once at time zero, when all vCPUs are in the [`SchedContext`], none of them
    /// runnable: sets up per-vCPU state, each vCPU's first `processor`, and timers.
    fn start(&mut self, cx: &mut SchedContext<'_>);

    /// `v` has become runnable, or it was runnable already (a wake-up may be spurious).
    fn wake(&mut self, cx: &mut SchedContext<'_>, v: Vcpu);

    /// `v`, runnable but not on a pCPU, is notified once more. Xen's schedulers are not told;
    /// a hypervisor sees it when it delivers the event.
    fn kicked(&mut self, _view: &mut SchedContext<'_>, _v: Vcpu) {}

    /// `v`, which runs on some pCPU, gives up the rest of its slice but stays runnable.
    /// The pCPU enters [`schedule`](Self::schedule) right after.
    fn yielded(&mut self, cx: &mut SchedContext<'_>, v: Vcpu);

    /// `p`, where `prev` runs or has just blocked (`None`: idle), asks who is next.
    fn schedule(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision;

    /// `p` has finished switching away from `v`, which may now run elsewhere.
    fn context_saved(&mut self, cx: &mut SchedContext<'_>, p: Pcpu, v: Vcpu);

    /// A timer armed through [`SchedContext::arm`] has fired. Gives the pCPU on which it came, if who runs there pays for it
    /// ([`Costs::retry`](crate::Costs::retry)).
    fn timer(&mut self, cx: &mut SchedContext<'_>, timer: SchedTimer) -> Option<Pcpu>;

    /// What has happened to `cgroup` so far; `None` if it has no limit or the scheduler knows no
    /// groups.
    fn cgroup_stats(&self, _view: &HostState, _cgroup: Cgroup) -> Option<CgroupStats> {
        None
    }

    /// Checks the scheduler's own bookkeeping against the host; used by tests between
    /// events. Returns what is wrong.
    fn check(&self, _view: &HostState) -> Result<(), String> {
        Ok(())
    }
}
