//! The guest's side: waits for orders, plays them, answers.

use std::sync::atomic::AtomicBool;
use std::thread;

use lowtail_engine::{Duration, Rng};
use lowtail_xen::Store;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::message::{Answer, Job, Order, body, head, send, xen};
use crate::spin::Spin;
use crate::watch::{TURN, clock_reading, watch};
use crate::work::{Window, Work};
use lowtail_kernel::clock::Instant;
use lowtail_kernel::error::Error;
use lowtail_kernel::thread::set_cpus;

/// Where orders come; libxl makes `data` for the guest to write in.
pub(super) const ORDER: &str = "data/lowtail-order";
/// Where answers go.
pub(super) const ANSWER: &str = "data/lowtail-answer";
/// Where the guest says that it is there.
pub(super) const READY: &str = "data/lowtail-ready";

/// Plays what dom0 orders, until this domain is destroyed.
///
/// # Errors
/// If this is no guest of Xen's, or what comes is no order.
pub fn serve() -> Result<(), Error> {
    let mut store = Store::open().map_err(xen)?;
    let mut spin = Spin::measure(true);
    store.watch(ORDER).map_err(xen)?;
    store.write(READY, "1").map_err(xen)?;
    let mut last = 0;
    loop {
        store.changed().map_err(xen)?;
        let Some((number, pieces)) = head(&mut store, ORDER)?.filter(|&(n, _)| n != last) else {
            continue;
        };
        last = number;
        let order: Order = body(&mut store, ORDER, pieces)?;
        if order.jobs.is_empty() {
            spin = Spin::measure(true);
        }
        send(&mut store, ANSWER, number, &play(&order, spin))?;
    }
}

/// Plays an order; gives what was measured.
fn play(order: &Order, spin: Spin) -> Answer {
    let start = at(order.start_ns);
    let window = Window {
        start,
        from: start.after(order.from),
        to: start.after(order.to),
        last: start.after(order.last),
    };
    let live = |vcpu: usize| {
        let _ = set_cpus(Pid::from_raw(0), &[vcpu]);
        // Ordinary threads may be woken 50 us late, to save energy.
        let _ = nix::sys::prctl::set_timerslack(1);
        match order.jobs[vcpu] {
            Job::Play(task) => {
                // As in a run by threads of this host.
                let guest = Rng::new(order.seed, &order.vm);
                let name = format!("{}.{vcpu}", order.vm);
                let rng = if vcpu == 0 { guest.clone() } else { Rng::new(order.seed, &name) };
                let stop = &AtomicBool::new(false);
                window.start.sleep();
                Answer::late(Work { window, stop, vcpu, guest, rng, spin }.run(task))
            }
            Job::Watch => watched(window),
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..order.jobs.len()).map(|vcpu| scope.spawn(move || live(vcpu))).collect();
        let answers = threads.into_iter().filter_map(|thread| thread.join().ok());
        answers.reduce(Answer::and).unwrap_or_default()
    })
}

/// What a vCPU misses that computes.
fn watched(window: Window) -> Answer {
    window.start.sleep();
    let reading = clock_reading();
    let log = watch(|now| now >= window.to);
    let missed = log.missed.iter().filter(|missed| missed.0 >= window.from);
    let missed_ns = missed.map(|missed| missed.1.since(missed.0).saturating_sub(reading).as_ns());
    let away: Vec<_> = log.missed.iter().filter(|m| m.1.since(m.0) > TURN).collect();
    let turns_ns = away.windows(2).map(|two| two[1].0.since(two[0].1).as_ns());
    Answer { missed_ns: missed_ns.collect(), turns_ns: turns_ns.collect(), ..Answer::default() }
}

/// The instant at which all domains' clocks show so many nanoseconds.
fn at(realtime_ns: u64) -> Instant {
    let (now, real) = (Instant::now(), realtime_ns_now());
    now.after(Duration::from_ns(realtime_ns.saturating_sub(real)))
}

/// What the clock shows that all domains of a host have in common: Xen's wall clock.
pub(super) fn realtime_ns_now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME);
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
