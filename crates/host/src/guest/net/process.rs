//! Processes at the ends of flows: one for each that sends, and for each that has work to do
//! for what comes.

use std::collections::VecDeque;

use crate::guest::kernel::fair::TaskId;
use crate::io::packet::{FlowId, Packet};

/// Packets that a process sends in one go.
pub(super) const SEND_PACKETS: usize = 16;

/// A process at the end of a flow.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) task: TaskId,
    pub(super) flow: FlowId,
    /// It sends; else it works for what comes.
    pub(super) sends: bool,
    /// What it is sending, or what has come for it.
    pub(super) packets: VecDeque<Packet>,
}

/// The processes of a guest.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: Vec<Process>,
}

impl Processes {
    /// `task` is the process at the end of `flow`.
    pub(super) fn add(&mut self, task: TaskId, flow: FlowId, sends: bool, room: usize) {
        self.all.push(Process { task, flow, sends, packets: VecDeque::with_capacity(room) });
    }

    /// The one that is `task`.
    pub(super) fn by_task(&mut self, task: TaskId) -> Option<&mut Process> {
        // They were added one after the other.
        let first = self.all.first()?.task;
        self.all.get_mut(usize::from(task.0.checked_sub(first.0)?))
    }

    /// The one at the end of `flow` that sends, or that works.
    pub(super) fn of(&mut self, flow: FlowId, sends: bool) -> Option<&mut Process> {
        // Flows are looked through in order, so that processes are sorted by flow.
        let at = self.all.partition_point(|process| process.flow.0 < flow.0);
        self.all.get_mut(at).filter(|process| process.flow == flow && process.sends == sends)
    }

    /// All that send.
    pub(super) fn senders(&self) -> impl Iterator<Item = &Process> {
        self.all.iter().filter(|process| process.sends)
    }
}
