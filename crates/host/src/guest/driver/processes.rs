//! Processes of a driver domain: an sshd that wakes now and then, a shell in a loop.

use super::config::Process;
use crate::guest::kernel::Begin;
use crate::guest::kernel::KernelContext;
use crate::guest::kernel::fair::{TaskConfig, TaskId};

/// The processes of a domain.
#[derive(Debug)]
pub(super) struct Processes {
    config: Vec<Process>,
    first: u16,
    /// Has done its work and is to sleep.
    tired: Vec<bool>,
}

impl Processes {
    pub(super) fn new(config: &[Process]) -> Self {
        Processes { config: config.to_vec(), first: 0, tired: vec![false; config.len()] }
    }

    /// Adds them to the kernel, on the first vCPU to begin with.
    pub(super) fn start(&mut self, kernel: &mut KernelContext<'_, '_>) {
        for (i, process) in self.config.iter().enumerate() {
            let measured = process.sleep.is_some();
            let task = kernel.add_task(TaskConfig { measured, ..TaskConfig::PROCESS });
            if i == 0 {
                self.first = task.0;
            }
            match process.sleep {
                Some(sleep) => kernel.wake_after(task, sleep),
                None => kernel.wake(task),
            }
        }
    }

    /// Its timer is set when it falls asleep and not before: one that fires while it is still
    /// awake, behind long interrupts, would be lost.
    pub(super) fn begin(&mut self, kernel: &mut KernelContext<'_, '_>, task: TaskId) -> Begin {
        let i = usize::from(task.0 - self.first);
        let process = self.config[i];
        match process.sleep {
            Some(sleep) if std::mem::take(&mut self.tired[i]) => {
                kernel.wake_after(task, sleep);
                Begin::Nothing
            }
            _ => Begin::Work(process.work()),
        }
    }

    pub(super) fn end(&mut self, task: TaskId) {
        let i = usize::from(task.0 - self.first);
        self.tired[i] = self.config[i].sleep.is_some();
    }
}
