//! Processes of a guest: they send and work for what comes through the port, first come first
//! served.

use std::collections::VecDeque;

use crate::guest::kernel::fair::TaskId;
use crate::io::packet::Packet;
use crate::io::port::Job;

/// Packets that a process sends in one go.
pub(super) const SEND_PACKETS: usize = 16;

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) task: TaskId,
    /// What it is at, and is to do.
    pub(super) jobs: VecDeque<Job>,
    /// How many packets it is sending.
    pub(super) sending: usize,
    /// The packet that it has sent last, and through which lane.
    pub(super) last: Option<(Packet, usize)>,
}

/// The processes of a guest.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: Vec<Process>,
}

impl Processes {
    /// `task` is the next one.
    pub(super) fn add(&mut self, task: TaskId, room: usize) {
        let jobs = VecDeque::with_capacity(room);
        self.all.push(Process { task, jobs, sending: 0, last: None });
    }

    /// Number `process`.
    pub(super) fn get(&mut self, process: u16) -> Option<&mut Process> {
        self.all.get_mut(usize::from(process))
    }

    /// The one that is `task`.
    pub(super) fn by_task(&mut self, task: TaskId) -> Option<&mut Process> {
        // They were added one after the other.
        let first = self.all.first()?.task;
        self.all.get_mut(usize::from(task.0.checked_sub(first.0)?))
    }

    /// Those that have sent through lane number `lane` last.
    pub(super) fn senders(&self, lane: usize) -> impl Iterator<Item = &Process> {
        let here = move |process: &&Process| process.last.is_some_and(|(_, last)| last == lane);
        self.all.iter().filter(here)
    }
}
