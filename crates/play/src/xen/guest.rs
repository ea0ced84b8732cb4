//! The guest's side: waits for orders, plays them, answers.

use std::sync::atomic::AtomicBool;
use std::thread;

use lowtail_engine::{Duration, Hist, Rng};
use lowtail_xen::Store;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::message::{Answer, Order, body, head, send, xen};
use crate::spin::Spin;
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
    let spin = Spin::measure(true);
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
        let hist = play(&order, spin);
        send(&mut store, ANSWER, number, &Answer::new(hist.as_ref()))?;
    }
}

/// Plays an order; gives what was measured, if something was.
fn play(order: &Order, spin: Spin) -> Option<Hist> {
    let start = at(order.start_ns);
    let window = Window {
        start,
        from: start.after(order.from),
        to: start.after(order.to),
        last: start.after(order.last),
    };
    let stop = &AtomicBool::new(false);
    let live = |vcpu: usize| {
        let _ = set_cpus(Pid::from_raw(0), &[vcpu]);
        // Ordinary threads may be woken 50 us late, to save energy.
        let _ = nix::sys::prctl::set_timerslack(1);
        // As in a run by threads of this host.
        let guest = Rng::new(order.seed, &order.vm);
        let name = format!("{}.{vcpu}", order.vm);
        let rng = if vcpu == 0 { guest.clone() } else { Rng::new(order.seed, &name) };
        window.start.sleep();
        Work { window, stop, vcpu, guest, rng, spin }.run(order.tasks[vcpu])
    };
    let hists = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..order.tasks.len()).map(|vcpu| scope.spawn(move || live(vcpu))).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect::<Vec<_>>()
    });
    hists.into_iter().flatten().reduce(|mut all, hist| {
        all.merge(&hist);
        all
    })
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
