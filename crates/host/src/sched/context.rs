//! What a scheduler can see and do while the host calls it.

use lowtail_engine::{EventQueue, Time, Timer};

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

/// What a scheduler can see and do while it handles a call.
#[derive(Debug)]
pub struct SchedContext<'a> {
    /// The host's state; `processor` and `paused` of a vCPU are the scheduler's to change.
    pub host: &'a mut HostState,
    pub(crate) queue: &'a mut EventQueue<Event>,
    pub(crate) timers: &'a mut Vec<Timer>,
    pub(crate) tickled: &'a mut CpuSet,
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
