//! vCPU schedulers: one trait, one file each.
//!
//! A scheduler is told of wake-ups, blocks and timers, may ask that a pCPU enter its
//! scheduler ("tickle"), and there decides who runs next and until when. It sees and
//! changes the host only through its [`View`]. What a hypervisor does around its
//! scheduler (run states, delivering the tickle, the slice timer, switching context)
//! belongs to the [`Machine`](crate::machine::Machine).

pub mod credit;
pub mod credit2;
pub mod null;

use lowtail_engine::{Duration, EventQueue, Time, Timer};

use crate::ids::{CpuSet, Dom, Pcpu, Vcpu};
use crate::machine::Event;
use crate::record::{Note, Recorder};

/// What a pCPU does until its scheduler is entered next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Who runs; `None` is the idle vCPU.
    pub next: Option<Vcpu>,
    /// When the scheduler wants to be entered again, counted from now; `None` is
    /// "when tickled". Xen's `ret.time`, where a negative value means the same.
    pub run_for: Option<Duration>,
}

/// A timer of a scheduler's own, such as a tick; the scheduler numbers them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedTimer(pub u32);

/// A hypervisor's vCPU scheduler.
///
/// The machine calls these in the order of simulated time, never one inside another.
pub trait Scheduler: Send {
    /// Called once at time zero, when all vCPUs are in the [`View`], none of them
    /// runnable: sets up per-vCPU state, each vCPU's first `processor`, and timers.
    fn start(&mut self, view: &mut View<'_>);

    /// `v` has become runnable, or it was runnable already (a wake-up may be spurious).
    fn wake(&mut self, view: &mut View<'_>, v: Vcpu);

    /// `v`, which runs on some pCPU, gives up the rest of its slice but stays runnable.
    /// The pCPU enters [`schedule`](Self::schedule) right after.
    fn yielded(&mut self, view: &mut View<'_>, v: Vcpu);

    /// `p`, where `prev` runs or has just blocked (`None`: idle), asks who is next.
    fn schedule(&mut self, view: &mut View<'_>, p: Pcpu, prev: Option<Vcpu>) -> Decision;

    /// `p` has finished switching away from `v`, which may now run elsewhere.
    fn context_saved(&mut self, view: &mut View<'_>, p: Pcpu, v: Vcpu);

    /// A timer armed through [`View::arm`] has fired.
    fn timer(&mut self, view: &mut View<'_>, timer: SchedTimer);

    /// Checks the scheduler's own bookkeeping against the host; used by tests between
    /// events. Returns what is wrong.
    fn check(&self, _view: &Facts) -> Result<(), String> {
        Ok(())
    }
}

/// One vCPU as the hypervisor knows it.
#[derive(Debug, Clone, Copy)]
pub struct VcpuState {
    /// Whose vCPU it is.
    pub dom: Dom,
    /// The pCPU on which it runs, ran last, or whose queue it waits in. Schedulers set it.
    pub processor: Pcpu,
    /// Where it may run (hard affinity). Never empty.
    pub hard: CpuSet,
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
pub struct Facts {
    /// Now.
    pub now: Time,
    /// All vCPUs, by [`Vcpu::index`].
    pub vcpus: Vec<VcpuState>,
    /// All domains, by [`Dom::index`].
    pub doms: Vec<DomParams>,
    /// Who runs where, by [`Pcpu::index`]: Xen's `curr_on_cpu`. From the moment of the
    /// decision on, that is, also while the context is being switched.
    pub current: Vec<Option<Vcpu>>,
    /// pCPUs of one socket, by socket number. Each pCPU is a core of its own (SMT off).
    pub sockets: Vec<CpuSet>,
    /// All pCPUs.
    pub pcpus: CpuSet,
}

impl Facts {
    /// The socket that `p` sits in.
    pub fn socket_of(&self, p: Pcpu) -> CpuSet {
        self.sockets.iter().copied().find(|s| s.has(p)).unwrap_or(self.pcpus)
    }
}

/// What a scheduler can see and do while it handles a call.
#[derive(Debug)]
pub struct View<'a> {
    /// The host's state; `processor` and `paused` of a vCPU are the scheduler's to change.
    pub facts: &'a mut Facts,
    pub(crate) queue: &'a mut EventQueue<Event>,
    pub(crate) timers: &'a mut Vec<Timer>,
    pub(crate) tickled: &'a mut CpuSet,
    pub(crate) recorder: &'a mut Recorder,
}

impl View<'_> {
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

    /// Undoes [`arm`](Self::arm).
    pub fn disarm(&mut self, timer: SchedTimer) {
        if let Some(timer) = self.timers.get(timer.0 as usize) {
            self.queue.cancel(*timer);
        }
    }

    /// Leaves a remark in the recording of the schedule, if there is one.
    pub fn note(&mut self, p: Pcpu, v: Vcpu, note: Note) {
        self.recorder.note(self.facts.now, p, v, note);
    }
}
