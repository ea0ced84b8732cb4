//! What the threads do: the workloads of the simulator, for real.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use lowtail_engine::{Duration, Hist, Rng};

use crate::plan::Task;
use lowtail_kernel::clock::{Instant, own_cpu};

/// Turns of the loop between two looks at a clock: 10 us at most on any machine of today.
const TURNS: u32 = 1_000;
/// The longest sleep without a look whether the run has ended.
const NAP: Duration = Duration::from_ms(100);

/// When a run begins, is measured, and ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// When all threads start.
    pub(crate) start: Instant,
    /// From when on what is woken counts.
    pub(crate) from: Instant,
    /// Until when.
    pub(crate) to: Instant,
    /// When a thread stops that nobody has stopped: whoever would have may not get a CPU.
    pub(crate) last: Instant,
}

/// One thread at work.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) window: Window,
    /// Set when all is over.
    pub(crate) stop: &'a AtomicBool,
    /// Random draws of this thread.
    pub(crate) rng: Rng,
}

impl Work<'_> {
    /// Does `task` until the end; gives how late its wake-ups were, if it is about that.
    pub(crate) fn run(&mut self, task: Task) -> Option<Hist> {
        match task {
            Task::Loop => {
                while !self.over() {
                    turn();
                }
                None
            }
            Task::Hog { burst, sleep } => {
                // The same first sleep as in the simulator, for the same reason.
                let first = self.rng.uniform(Duration::ZERO, sleep + burst.mean());
                self.sleep(Instant::now().after(first));
                while !self.over() {
                    let burst = burst.draw(&mut self.rng);
                    self.compute(burst);
                    self.sleep(Instant::now().after(sleep));
                }
                None
            }
            Task::Sleeper { sleep, work } => {
                let mut lateness = Hist::new();
                while !self.over() {
                    self.compute(work);
                    let due = Instant::now().after(sleep.draw(&mut self.rng));
                    self.sleep(due);
                    let woken = Instant::now();
                    if due >= self.window.from && due < self.window.to && woken >= due {
                        lateness.record(woken.since(due));
                    }
                }
                Some(lateness)
            }
        }
    }

    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.window.last
    }

    /// Computes for `work` of processor time.
    fn compute(&self, work: Duration) {
        if work.is_zero() {
            return;
        }
        let until = own_cpu() + work;
        while own_cpu() < until && !self.over() {
            turn();
        }
    }

    fn sleep(&self, due: Instant) {
        loop {
            let nap = Instant::now().after(NAP);
            due.min(nap).sleep();
            if due <= nap || self.over() {
                return;
            }
        }
    }
}

/// Computes for a moment, in plain arithmetic: a pause instruction could hand the CPU to
/// somebody else below a hypervisor.
fn turn() {
    for i in 0..TURNS {
        black_box(i);
    }
}
