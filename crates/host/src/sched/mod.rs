//! vCPU schedulers: one trait, one file each.
//!
//! A scheduler is told of wake-ups, blocks and timers, may ask that a pCPU enter its
//! scheduler ("tickle"), and there decides who runs next and until when. It sees and
//! changes the host only through its [`SchedContext`]. What a hypervisor does around its
//! scheduler (run states, delivering the tickle, the slice timer, switching context)
//! belongs to the [`Host`](crate::host::Host).

pub mod credit;
pub mod credit2;
pub mod fair;
pub mod null;
pub mod small_first;

use lowtail_engine::{Duration, EventQueue, Time, Timer};

use crate::cgroup::CgroupStats;
use crate::event::Event;
pub use crate::event::SchedTimer;
pub use crate::host_state::HostState;
use crate::host_state::VcpuState;
use crate::ids::{Cgroup, CpuSet, Pcpu, Vcpu};
use crate::record::{Note, Recorder};

/// Refuses a rate limit outside of what Xen accepts: 0 (off) or 100 us to 500 ms
/// (`XEN_SYSCTL_SCHED_RATELIMIT_MIN`, `_MAX` in `public/sysctl.h`).
pub fn check_ratelimit(ratelimit: Duration) -> Result<(), String> {
    let range = Duration::from_us(100)..=Duration::from_ms(500);
    if ratelimit.is_zero() || range.contains(&ratelimit) {
        return Ok(());
    }
    Err(format!("rate limit {ratelimit}: Xen accepts 0us (off) or 100us to 500ms"))
}

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
/// The machine calls these in the order of simulated time, never one inside another.
pub trait Scheduler: Send {
    /// Called once at time zero, when all vCPUs are in the [`SchedContext`], none of them
    /// runnable: sets up per-vCPU state, each vCPU's first `processor`, and timers.
    fn start(&mut self, view: &mut SchedContext<'_>);

    /// `v` has become runnable, or it was runnable already (a wake-up may be spurious).
    fn wake(&mut self, view: &mut SchedContext<'_>, v: Vcpu);

    /// `v`, runnable but not on a pCPU, is notified once more. Xen's schedulers are not told;
    /// a hypervisor sees it when it delivers the event.
    fn kicked(&mut self, _view: &mut SchedContext<'_>, _v: Vcpu) {}

    /// `v`, which runs on some pCPU, gives up the rest of its slice but stays runnable.
    /// The pCPU enters [`schedule`](Self::schedule) right after.
    fn yielded(&mut self, view: &mut SchedContext<'_>, v: Vcpu);

    /// `p`, where `prev` runs or has just blocked (`None`: idle), asks who is next.
    fn schedule(&mut self, view: &mut SchedContext<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision;

    /// `p` has finished switching away from `v`, which may now run elsewhere.
    fn context_saved(&mut self, view: &mut SchedContext<'_>, p: Pcpu, v: Vcpu);

    /// A timer armed through [`SchedContext::arm`] has fired.
    fn timer(&mut self, view: &mut SchedContext<'_>, timer: SchedTimer);

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

/// What a scheduler can see and do while it handles a call.
#[derive(Debug)]
pub struct SchedContext<'a> {
    /// The host's state; `processor` and `paused` of a vCPU are the scheduler's to change.
    pub facts: &'a mut HostState,
    pub(crate) queue: &'a mut EventQueue<Event>,
    pub(crate) timers: &'a mut Vec<Timer>,
    pub(crate) tickled: &'a mut CpuSet,
    pub(crate) recorder: &'a mut Recorder,
}

impl SchedContext<'_> {
    /// Now.
    pub fn now(&self) -> Time {
        self.facts.now
    }

    /// The state of `v`.
    pub fn vcpu(&self, v: Vcpu) -> &VcpuState {
        &self.facts.vcpus[v.index()]
    }

    /// The state of `v`, to change `processor` or `paused`.
    pub fn vcpu_mut(&mut self, v: Vcpu) -> &mut VcpuState {
        &mut self.facts.vcpus[v.index()]
    }

    /// Who runs on `p`.
    pub fn current(&self, p: Pcpu) -> Option<Vcpu> {
        self.facts.current[p.index()]
    }

    /// Whether `v` runs on its processor: Xen's `curr_on_cpu(v->processor) == v`.
    pub fn is_current(&self, v: Vcpu) -> bool {
        self.current(self.vcpu(v).processor) == Some(v)
    }

    /// Makes `p` enter its scheduler soon. Several tickles before it gets there are one.
    pub fn tickle(&mut self, p: Pcpu) {
        self.tickled.insert(p);
    }

    /// Has [`Scheduler::timer`] called at `at`; an earlier setting of the same timer is undone.
    pub fn arm(&mut self, timer: SchedTimer, at: Time) {
        let index = timer.0 as usize;
        if self.timers.len() <= index {
            self.timers.resize(index + 1, Timer::NONE);
        }
        self.queue.cancel(self.timers[index]);
        self.timers[index] = self.queue.at(at, Event::SchedulerTimer(timer));
    }

    /// Leaves a remark in the recording of the schedule, if there is one.
    pub fn note(&mut self, p: Pcpu, v: Vcpu, note: Note) {
        self.recorder.note(self.facts.now, p, v, note);
    }
}
