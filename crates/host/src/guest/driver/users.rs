//! Processes of a driver domain: an sshd that wakes now and then, a shell in a loop.

use lowtail_engine::Duration;

use crate::guest::kernel::Begin;
use crate::guest::kernel::Hands;
use crate::guest::kernel::fair::{TaskConfig, TaskId};

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Sleeps, wakes, works, over and over; from waking to running is measured.
    Sleeper {
        /// How long it sleeps.
        sleep: Duration,
        /// Work after each sleep, more than zero.
        work: Duration,
    },
    /// Computes for ever.
    Loop,
}

/// The processes of a domain.
#[derive(Debug)]
pub(super) struct Users {
    config: Vec<User>,
    first: u16,
    /// Has done its work and is to sleep.
    tired: Vec<bool>,
}

impl Users {
    pub(super) fn new(config: &[User]) -> Self {
        Users { config: config.to_vec(), first: 0, tired: vec![false; config.len()] }
    }

    /// Adds them to the kernel, on the first vCPU to begin with.
    pub(super) fn start(&mut self, hands: &mut Hands<'_, '_>) {
        for (i, user) in self.config.iter().enumerate() {
            let measured = matches!(user, User::Sleeper { .. });
            let task = hands.add_task(TaskConfig { measured, ..TaskConfig::PROCESS });
            if i == 0 {
                self.first = task.0;
            }
            match *user {
                User::Sleeper { sleep, .. } => hands.wake_after(task, sleep),
                User::Loop => hands.wake(task),
            }
        }
    }

    /// Its timer is set when it falls asleep and not before: one that fires while it is still
    /// awake, behind long interrupts, would be lost.
    pub(super) fn begin(&mut self, hands: &mut Hands<'_, '_>, task: TaskId) -> Begin {
        let i = usize::from(task.0 - self.first);
        match self.config[i] {
            User::Sleeper { sleep, .. } if std::mem::take(&mut self.tired[i]) => {
                hands.wake_after(task, sleep);
                Begin::Nothing
            }
            User::Sleeper { work, .. } => Begin::Work(work),
            User::Loop => Begin::Work(Duration::MAX),
        }
    }

    pub(super) fn end(&mut self, task: TaskId) {
        let i = usize::from(task.0 - self.first);
        self.tired[i] = matches!(self.config[i], User::Sleeper { .. });
    }
}
