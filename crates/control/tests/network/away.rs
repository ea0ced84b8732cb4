//! When a processor was away: below a hypervisor it may be gone for tens of milliseconds, and no queue of this host has to do
//! with what waits meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lowtail_host::cgroup::{Policy, Thread};
use lowtail_kernel::thread::{own_cpus, set_cpus, set_policy};
use nix::unistd::gettid;

/// How often it is looked whether a processor is there.
const PERIOD: Duration = Duration::from_micros(500);
/// A thread before which nobody goes is woken so late only where its processor is away. It waits for softirqs, which have 2 ms
/// at most (`net.core.netdev_budget_usecs`) and use a small part of that where processors have nothing to do for most of the time.
const LATE: Duration = Duration::from_millis(1);

/// From when to when one was away.
type Span = (Instant, Instant);

/// Threads that look, one on each processor, and threads that keep it awake: a hypervisor brings a virtual processor that has halted back
/// when it has time, without a trace in `/proc/stat`.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Span>>>,
    awake: Vec<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let look = |cpu| {
            let over = Arc::clone(&over);
            thread::spawn(move || look(cpu, &over))
        };
        let stay = |cpu| {
            let over = Arc::clone(&over);
            thread::spawn(move || stay_awake(cpu, &over))
        };
        let cpus = own_cpus().expect("they are known");
        let awake = cpus.iter().copied().map(stay).collect();
        let threads = cpus.into_iter().map(look).collect();
        Watch { over, threads, awake }
    }

    /// When any of them was away.
    pub(crate) fn end(self) -> Vec<Span> {
        self.over.store(true, Ordering::Relaxed);
        self.awake.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let spans = self.threads.into_iter().map(|thread| thread.join().expect("no panic"));
        spans.flatten().collect()
    }
}

/// Computes where nobody else does.
fn stay_awake(cpu: usize, over: &AtomicBool) {
    set_cpus(gettid(), &[cpu]).expect("it is ours");
    let last = Thread { policy: Policy::Idle, ..Thread::default() };
    set_policy(gettid(), &last).expect("it may go down");
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn look(cpu: usize, over: &AtomicBool) -> Vec<Span> {
    set_cpus(gettid(), &[cpu]).expect("it is ours");
    let first = Thread { policy: Policy::Fifo(99), ..Thread::default() };
    set_policy(gettid(), &first).expect("root may");
    let (mut spans, mut last) = (Vec::new(), Instant::now());
    while !over.load(Ordering::Relaxed) {
        thread::sleep(PERIOD);
        let now = Instant::now();
        if now - last >= PERIOD + LATE {
            spans.push((last, now));
        }
        last = now;
    }
    spans
}
