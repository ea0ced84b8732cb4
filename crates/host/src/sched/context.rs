//! What a scheduler can see and do while the host calls it.

use lowtail_engine::{Duration, EventQueue, Time, Timer};

use crate::cpu_set::CpuSet;
use crate::event::{Event, SchedTimer};
use crate::host_state::{HostState, VcpuState};
use crate::ids::{Pcpu, Vcpu};
use crate::record::{Note, Recorder};

/// What it took to choose who runs next, besides a pass and a switch: each takes time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// Control groups on the way from the root to who is next: picks.
    pub picked: u32,
    /// Control groups of who ran and now waits, in which who is next is not.
    pub put: u32,
    /// Threads that were switched to only to be taken out of their queue, since their group has run out of its limit.
    pub throttled: u32,
}

/// When a pCPU's slice is over: the timer that enters its scheduler then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    timer: Timer,
    at: Time,
    /// It ends so long after it is set at the earliest.
    slop: Duration,
}

impl Slice {
    /// None, on a host with timers of this slop.
    pub(crate) fn new(slop: Duration) -> Self {
        Slice { timer: Timer::NONE, at: Time::ZERO, slop }
    }

    /// Takes it back.
    pub(crate) fn cancel(&mut self, queue: &mut EventQueue<Event>) {
        queue.cancel(self.timer);
    }

    /// The slice of `p` is over in `span` from now.
    pub(crate) fn over_in(
        &mut self,
        (now, span): (Time, Duration),
        p: Pcpu,
        queue: &mut EventQueue<Event>,
    ) {
        self.over_at(now + span.max(self.slop), p, queue);
    }

    /// The slice of `p` is over at that time, whatever the slop.
    pub(crate) fn over_at(&mut self, at: Time, p: Pcpu, queue: &mut EventQueue<Event>) {
        self.at = at;
        self.timer = queue.at(at, Event::SliceOver(p));
    }
}

/// What a scheduler can see and do while it handles a call.
#[derive(Debug)]
pub struct SchedContext<'a> {
    /// The host's state; `processor` and `paused` of a vCPU are the scheduler's to change.
    pub host: &'a mut HostState,
    pub(crate) queue: &'a mut EventQueue<Event>,
    pub(crate) timers: &'a mut Vec<Timer>,
    pub(crate) tickled: &'a mut CpuSet,
    pub(crate) slices: &'a mut [Slice],
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) groups: &'a mut u32,
    pub(crate) pass: &'a mut Pass,
}

impl SchedContext<'_> {
    /// Now.
    pub fn now(&self) -> Time {
        self.host.now
    }

    /// The state of `v`.
    pub fn vcpu(&self, v: Vcpu) -> &VcpuState {
        &self.host.vcpus[v.index()]
    }

    /// The state of `v`, to change `processor` or `paused`.
    pub fn vcpu_mut(&mut self, v: Vcpu) -> &mut VcpuState {
        &mut self.host.vcpus[v.index()]
    }

    /// Who runs on `p`.
    pub fn current(&self, p: Pcpu) -> Option<Vcpu> {
        self.host.current[p.index()]
    }

    /// Whether `v` runs on its processor: Xen's `curr_on_cpu(v->processor) == v`.
    pub fn is_current(&self, v: Vcpu) -> bool {
        self.current(self.vcpu(v).processor) == Some(v)
    }

    /// Makes `p` enter its scheduler soon. Several tickles before it gets there are one.
    pub fn tickle(&mut self, p: Pcpu) {
        self.tickled.insert(p);
    }

    /// Makes `p` enter its scheduler at `at`, if it does not earlier. It needs no tickle: only its timer is set. What `p` decides
    /// itself meanwhile replaces that.
    pub fn end_slice(&mut self, p: Pcpu, at: Time) {
        let now = self.host.now;
        let slice = &mut self.slices[p.index()];
        if self.queue.is_pending(slice.timer) && slice.at <= at {
            return;
        }
        slice.cancel(self.queue);
        slice.over_in((now, at.saturating_since(now)), p, self.queue);
    }

    /// Has [`Scheduler::timer`](super::Scheduler::timer) called at `at`; an earlier setting of the same timer is undone.
    pub fn arm(&mut self, timer: SchedTimer, at: Time) {
        let index = timer.0 as usize;
        if self.timers.len() <= index {
            self.timers.resize(index + 1, Timer::NONE);
        }
        self.queue.cancel(self.timers[index]);
        self.timers[index] = self.queue.at(at, Event::SchedulerTimer(timer));
    }

    /// What it took to choose who runs next, besides a pass and a switch.
    pub fn pass(&mut self, pass: Pass) {
        *self.pass = pass;
    }

    /// This call has put so many control groups into their queues, or taken them out: that takes time.
    pub fn moved_groups(&mut self, n: u32) {
        *self.groups += n;
    }

    /// Leaves a remark in the recording of the schedule, if there is one.
    pub fn note(&mut self, p: Pcpu, v: Vcpu, note: Note) {
        self.recorder.note(self.host.now, p, v, note);
    }
}
