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

    pub(super) fn begin(&mut self, task: TaskId) -> Begin {
        let i = usize::from(task.0 - self.first);
        match self.config[i] {
            User::Sleeper { .. } if std::mem::take(&mut self.tired[i]) => Begin::Nothing,
            User::Sleeper { work, .. } => Begin::Work(work),
            User::Loop => Begin::Work(Duration::MAX),
        }
    }

    pub(super) fn end(&mut self, hands: &mut Hands<'_, '_>, task: TaskId) {
        let i = usize::from(task.0 - self.first);
        if let User::Sleeper { sleep, .. } = self.config[i] {
            self.tired[i] = true;
            hands.wake_after(task, sleep);
        }
    }
}
