//! What the threads do: servers, loops, and those that are up to something (crates/host/src/guest).

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// What a thread does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Computes.
    Loop,
    /// Computes for so long each time that so much time has passed; open loop; its answers are measured.
    Server { gap_us: u64, work_us: u64, random: bool },
    /// Yields after each piece of work.
    Yielder { work_us: u64 },
    /// Sleeps whenever the tick comes: from so much before to as much after.
    TickDodger { tick_us: u64, margin_us: u64 },
    /// Sleeps, then computes for so much processor time.
    Burst { sleep_us: u64, work_us: u64 },
    /// Works in bursts that so many percent of the clock have paid for.
    Surfer { burst_us: u64, percent: u64 },
    /// Computes around the multiples of a period.
    EdgeBurner { period_us: u64, side_us: u64 },
    /// Works for so long, then wakes the next of its ring, and sleeps until it is woken.
    Ring { work_us: u64 },
}

/// Whose turn it is among those that wake each other.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    turn: Mutex<usize>,
    /// One for each member: whoever passes the turn on wakes the next, and nobody else.
    changed: [Condvar; 8],
    pub(crate) members: AtomicUsize,
}

/// What all threads of a scenario know.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) stop: AtomicBool,
    pub(crate) start: Instant,
    /// From when on answers count.
    pub(crate) from: Instant,
    /// What all loops have done, in turns of theirs.
    pub(crate) turns: AtomicU64,
}

impl Scene {
    /// Nothing has happened yet.
    pub(crate) fn new(start: Instant, from: Instant) -> Arc<Self> {
        Arc::new(Scene { stop: AtomicBool::new(false), start, from, turns: AtomicU64::new(0) })
    }
}

/// Answers in nanoseconds, from when a request came to when it was answered.
pub(crate) type Answers = Vec<u64>;

/// Does `kind` until the scene is over.
pub(crate) fn perform(kind: Kind, scene: &Scene, ring: &Arc<Ring>, number: usize) -> Answers {
    let mut answers = Answers::new();
    match kind {
        Kind::Loop => {
            while !over(scene) {
                turn();
                scene.turns.fetch_add(1, Ordering::Relaxed);
            }
        }
        Kind::Server { gap_us, work_us, random } => {
            let mut draw = Draw(number as u64 + 1);
            let mut due = scene.start;
            while !over(scene) {
                due += us(draw.exponential(gap_us));
                sleep_until(due);
                compute(if random { draw.exponential(work_us) } else { work_us }, scene);
                if due >= scene.from {
                    answers.push(due.elapsed().as_nanos() as u64);
                }
            }
        }
        Kind::Yielder { work_us } => {
            while !over(scene) {
                compute(work_us, scene);
                std::thread::yield_now();
            }
        }
        Kind::TickDodger { tick_us, margin_us } => {
            while !over(scene) {
                // Ticks come at multiples of the clock.
                let at = clock_us() % tick_us;
                if at < margin_us || at >= tick_us - margin_us {
                    let left =
                        if at < margin_us { margin_us - at } else { tick_us - at + margin_us };
                    sleep_until(Instant::now() + us(left));
                } else {
                    turn();
                }
            }
        }
        Kind::Burst { sleep_us, work_us } => {
            while !over(scene) {
                sleep_until(Instant::now() + us(sleep_us));
                compute(work_us, scene);
            }
        }
        Kind::Surfer { burst_us, percent } => {
            let mut next = Instant::now();
            while !over(scene) {
                sleep_until(next);
                next = Instant::now() + us(burst_us * 100 / percent);
                compute(burst_us, scene);
            }
        }
        Kind::EdgeBurner { period_us, side_us } => {
            while !over(scene) {
                let at = clock_us() % period_us;
                if at >= side_us && at < period_us - side_us {
                    sleep_until(Instant::now() + us(period_us - side_us - at));
                } else {
                    turn();
                }
            }
        }
        Kind::Ring { work_us } => {
            while !over(scene) {
                let mut whose = ring.turn.lock().expect("nobody panics");
                while *whose != number && !over(scene) {
                    let nap = Duration::from_millis(100);
                    whose = ring.changed[number].wait_timeout(whose, nap).expect("nobody panics").0;
                }
                drop(whose);
                compute(work_us, scene);
                let next = (number + 1) % ring.members.load(Ordering::Relaxed);
                *ring.turn.lock().expect("nobody panics") = next;
                ring.changed[next].notify_one();
            }
        }
    }
    answers
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn over(scene: &Scene) -> bool {
    scene.stop.load(Ordering::Relaxed)
}

fn clock_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("it is always there");
    now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1_000
}

/// Processor time of this thread.
fn own_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("it is always there");
    now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1_000
}

/// Computes for so much processor time.
fn compute(work_us: u64, scene: &Scene) {
    let until = own_us() + work_us;
    while own_us() < until && !over(scene) {
        turn();
    }
}

/// A microsecond or two.
fn turn() {
    for i in 0..100 {
        black_box(i);
    }
}

fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

/// Random draws: Marsaglia's xorshift64.
struct Draw(u64);

impl Draw {
    fn exponential(&mut self, mean: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let unit = ((self.0 >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        (-unit.ln() * mean as f64) as u64
    }
}
