//! Threads of a recorded host, run anew: each computes what it computed between a wake-up and the next sleep, wakes whom it woke when it
//! has come as far, and sleeps until somebody or something wakes it.
//!
//! It is the work that is recorded, not when it was done: under another scheduler a thread that is let run sooner wakes others sooner, and
//! one that waits longer finds what has been left for it meanwhile.

use std::sync::Arc;

use lowtail_engine::{Duration, Time};

use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::ids::{Dom, Vcpu};
use crate::notification::Origin;

/// The most threads of one domain.
pub const THREADS_MAX: usize = 1 << THREAD_BITS;

/// Bits of a token for a thread's number; those of a vCPU's number are above.
const THREAD_BITS: u32 = 10;
const WAKER_SHIFT: u32 = THREAD_BITS;
/// What the token is about, above both.
const KIND_SHIFT: u32 = WAKER_SHIFT + 16;
/// A timer of the thread's own.
const OWN: u32 = 0;
/// A thread, the waker, wakes it.
const WOKEN: u32 = 1;
/// Something from outside comes in for it.
const ARRIVES: u32 = 2;

/// No segment is shorter, so that each step takes time.
const WORK_MIN: Duration = Duration::from_ns(1);

/// What ends a thread's sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nothing: it goes on at once.
    None,
    /// Its timer, so long after it went to sleep.
    Timer(Duration),
    /// Another thread, or something from outside.
    Wakeup,
}

/// What a thread does from a wake-up to the next sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// What it waits for before.
    pub cause: Cause,
    /// How long it computes; [`Duration::MAX`] is for ever.
    pub work: Duration,
    /// Whom it wakes, in its thread's [`wakes`](ReplayThread::wakes).
    pub wakes: (u32, u32),
}

/// A thread wakes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// When it has computed for so long in its segment.
    pub at: Duration,
    /// The domain of whom it wakes.
    pub dom: u16,
    /// The number of whom it wakes there.
    pub thread: u16,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayThread {
    /// What it does, over and over: after the last one it goes on with number [`again`](Self::again).
    pub segments: Vec<Segment>,
    /// With which segment it goes on.
    pub again: u32,
    /// Whom it wakes, in the order of the segments.
    pub wakes: Vec<Wake>,
    /// When something from outside wakes it, in order.
    pub arrivals: Vec<Time>,
}

/// What the threads of a domain do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayConfig {
    /// Each on a vCPU of its own.
    pub threads: Vec<ReplayThread>,
}

/// How far a thread is.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The segment in which it is, or for which it waits.
    segment: u32,
    /// It has begun with it, and has done so much.
    begun: bool,
    done: Duration,
    /// The next of its wakes, and of what comes for it.
    wake: u32,
    arrival: u32,
    /// Its timer is set; it has ended.
    timer_set: bool,
    timer_over: bool,
    /// Wake-ups that it has not used.
    tokens: u32,
    /// It is to be notified of the next one.
    sleeps: bool,
}

/// Threads of a recorded host.
#[derive(Debug)]
pub struct Replay {
    config: Arc<ReplayConfig>,
    progress: Vec<Progress>,
}

impl Replay {
    /// The threads, at their beginnings.
    pub fn new(config: Arc<ReplayConfig>) -> Self {
        let progress = vec![Progress::default(); config.threads.len()];
        Replay { config, progress }
    }

    /// The next thing that comes in for a thread is under way.
    fn expect(&mut self, cx: &mut GuestContext<'_>, thread: usize) {
        let at = self.progress[thread].arrival as usize;
        if let Some(&time) = self.config.threads[thread].arrivals.get(at) {
            self.progress[thread].arrival += 1;
            cx.at(time.max(cx.now()), ARRIVES << KIND_SHIFT | thread as u32);
        }
    }

    /// Whether what the thread waits for has happened. If not, it is under way.
    fn may_begin(&mut self, cx: &mut GuestContext<'_>, thread: usize, cause: Cause) -> bool {
        let progress = &mut self.progress[thread];
        match cause {
            Cause::None => true,
            Cause::Wakeup => {
                let woken = progress.tokens > 0;
                progress.tokens -= u32::from(woken);
                progress.sleeps = !woken;
                woken
            }
            Cause::Timer(span) => {
                if !std::mem::replace(&mut progress.timer_set, true) {
                    progress.timer_over = span.is_zero();
                    if !span.is_zero() {
                        cx.after(span, OWN << KIND_SHIFT | thread as u32);
                    }
                }
                progress.timer_over
            }
        }
    }
}

impl Guest for Replay {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        for thread in 0..self.progress.len() {
            self.expect(cx, thread);
        }
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        let config = Arc::clone(&self.config);
        let Some(thread) = config.threads.get(vcpu) else { return Step::Block };
        // What it was last told to compute is done.
        while let Some(&segment) = thread.segments.get(self.progress[vcpu].segment as usize) {
            if !self.progress[vcpu].begun {
                if !self.may_begin(cx, vcpu, segment.cause) {
                    return Step::Block;
                }
                let progress = &mut self.progress[vcpu];
                (progress.begun, progress.done) = (true, Duration::ZERO);
                (progress.timer_set, progress.timer_over) = (false, false);
                progress.wake = segment.wakes.0;
            }
            let progress = &mut self.progress[vcpu];
            let work = segment.work.max(WORK_MIN);
            let wakes = &thread.wakes[..segment.wakes.1 as usize];
            let wake = wakes.get(progress.wake as usize);
            let until = wake.map_or(work, |wake| wake.at.min(work));
            if progress.done < until {
                let step = if until == Duration::MAX { until } else { until - progress.done };
                progress.done = until;
                return Step::Compute(step);
            }
            if let Some(wake) = wake {
                progress.wake += 1;
                let token = WOKEN << KIND_SHIFT | u32::from(wake.thread);
                cx.wake(vcpu, Dom(wake.dom), |waker| token | u32::from(waker.0) << WAKER_SHIFT);
                continue;
            }
            progress.begun = false;
            progress.segment += 1;
            if progress.segment as usize == thread.segments.len() {
                progress.segment = thread.again;
            }
        }
        Step::Block
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        let thread = (token & (THREADS_MAX as u32 - 1)) as usize;
        let Some(progress) = self.progress.get_mut(thread) else { return };
        let origin = match token >> KIND_SHIFT {
            OWN => {
                progress.timer_over = true;
                return cx.notify(thread, Origin::OwnProcessor);
            }
            WOKEN => cx.origin_of(Vcpu((token >> WAKER_SHIFT) as u16), thread),
            _ => Origin::OwnProcessor,
        };
        progress.tokens = progress.tokens.saturating_add(1);
        if std::mem::take(&mut progress.sleeps) {
            cx.notify(thread, origin);
        }
        if token >> KIND_SHIFT == ARRIVES {
            self.expect(cx, thread);
        }
    }
}
