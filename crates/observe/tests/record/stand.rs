//! Threads that stand in for those of VMs and their neighbours.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use lowtail_host::cgroup::{Policy, Thread as Properties};
use lowtail_kernel::thread::{own_cpus, set_cpus, set_policy};
use lowtail_observe::record::{Options, Recorder, Summary};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;

/// Waits for its turn, as each fills a CPU; `None`, with a word, if this is not root.
pub(crate) use crate::needs::root as alone;

/// Now, by the clock of recordings.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

pub(crate) fn sleep_until(at_ns: u64) {
    let at = TimeSpec::new((at_ns / 1_000_000_000) as i64, (at_ns % 1_000_000_000) as i64);
    let absolute = ClockNanosleepFlags::TIMER_ABSTIME;
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, absolute, &at).is_err() {}
}

pub(crate) fn burn_until(at_ns: u64) {
    while now_ns() < at_ns {}
}

/// The CPU that tests fill, which is not the first: that one has the interrupts.
pub(crate) fn cpu() -> usize {
    *own_cpus().unwrap().last().unwrap()
}

/// Threads that end when it does.
#[derive(Default)]
pub(crate) struct Stage {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Stage {
    /// A thread of this name on these CPUs; gives its number.
    pub(crate) fn add(
        &mut self,
        name: &str,
        cpus: Vec<usize>,
        policy: Policy,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> u32 {
        let (tell, told): (_, Receiver<i32>) = channel();
        let over = Arc::clone(&self.over);
        let body = move || {
            let tid = nix::unistd::gettid();
            // Sleeps end when they are over, not up to 50 us later.
            fs::write(format!("/proc/{tid}/timerslack_ns"), "1").unwrap();
            set_cpus(Pid::from_raw(0), &cpus).unwrap();
            set_policy(Pid::from_raw(0), &Properties { policy, ..Properties::default() }).unwrap();
            tell.send(tid.as_raw()).unwrap();
            work(&over);
        };
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap());
        told.recv().unwrap() as u32
    }

    /// Waits until all have ended.
    pub(crate) fn end(mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// A test that fails leaves nobody behind to disturb the others.
impl Drop for Stage {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Computes for `on` of each `period`, before everybody else, until it is over.
pub(crate) fn hog(on: Duration, period: Duration) -> impl FnOnce(&AtomicBool) + Send + 'static {
    move |over| {
        let mut at_ns = now_ns();
        while !over.load(Ordering::Relaxed) {
            burn_until(at_ns + on.as_nanos() as u64);
            at_ns += period.as_nanos() as u64;
            sleep_until(at_ns);
        }
    }
}

/// Sleeps for `period` on average, again and again, and notes how late it is.
pub(crate) fn server(
    period: Duration,
    late_ns: Arc<Mutex<Vec<(u64, u64)>>>,
) -> impl FnOnce(&AtomicBool) + Send + 'static {
    move |over| {
        for turn in 0.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            // Of different lengths, for it not to fall into step with others.
            let due_ns = now_ns() + period.as_nanos() as u64 * (3 + turn % 5) / 5;
            sleep_until(due_ns);
            late_ns.lock().unwrap().push((due_ns, now_ns() - due_ns));
        }
    }
}

/// Options with this process as the VM `web`.
pub(crate) fn options() -> Options {
    let declared = format!("web={}", std::process::id()).parse().unwrap();
    Options { declared: vec![declared], ..Options::default() }
}

/// Records for so long.
pub(crate) fn record(recorder: &mut Recorder, span: Duration) -> (Summary, Vec<u8>) {
    recorder.run(Vec::new(), |passed| passed >= span).unwrap()
}
