//! What can happen in a host.

use crate::ids::{Dom, Pcpu, Vcpu};

/// A timer of a scheduler's own, such as a tick; the scheduler numbers them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedTimer(pub u32);

/// Everything that can happen in a host.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A tickled pCPU enters its scheduler.
    Tickled(Pcpu),
    /// A pCPU's slice is over.
    SliceOver(Pcpu),
    /// A pCPU has finished switching context.
    Switched(Pcpu),
    /// A pCPU enters its scheduler at the end of an interrupt.
    Reschedule(Pcpu),
    /// A pCPU's scheduling-clock interrupt.
    Tick(Pcpu),
    /// A tick of a guest's kernel on a vCPU.
    GuestTick(Vcpu),
    /// A vCPU has finished the work of its step.
    StepDone(Vcpu),
    /// The toolstack pauses a domain.
    Pause(Dom),
    /// It lets it go on.
    Unpause(Dom),
    /// A NIC interrupts.
    Interrupt(u16),
    /// The host's own kernel has taken packets from a NIC.
    Polled(u16),
    /// One of the scheduler's own timers.
    SchedulerTimer(SchedTimer),
    /// A timer of a guest or its surroundings.
    Guest {
        /// Whose.
        dom: Dom,
        /// What for.
        token: u32,
    },
}
