//! The guest's side: waits for orders, plays them, answers.

use std::sync::atomic::AtomicBool;
use std::thread;

use lowtail_engine::{Duration, Rng};
use lowtail_xen::{OwnVcpu, Store};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::message::{Answer, Job, Order, body, head, send, xen};
use crate::spin::Spin;
use crate::watch::{TURN, clock_reading, watch};
use crate::work::{Means, Window, Work};
use lowtail_kernel::clock::Instant;
use lowtail_kernel::error::Error;
use lowtail_kernel::thread::set_cpus;

/// Where orders come; libxl makes `data` for the guest to write in.
pub(super) const ORDER: &str = "data/lowtail-order";
/// Where answers go.
pub(super) const ANSWER: &str = "data/lowtail-answer";
/// Where the guest says that it is there.
pub(super) const READY: &str = "data/lowtail-ready";

/// Calls of Xen that are measured.
const CALLS: u32 = 501;

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
                let means = &match Means::of_guest(task) {
                    Ok(means) => means,
                    Err(why) => return Answer::failed(why),
                };
                window.start.sleep();
                let mut work = Work { window, stop, vcpu, guest, rng, spin, means };
                work.run(task).map_or_else(Answer::failed, Answer::late)
            }
            Job::Watch => watched(window),
            Job::Call => called(window).unwrap_or_else(Answer::failed),
        }
    };
    let before = tx_interrupts();
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..order.jobs.len()).map(|vcpu| scope.spawn(move || live(vcpu))).collect();
        let answers = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Answer::failed("a thread has panicked".into()))
        });
        let all = answers.reduce(Answer::and).unwrap_or_default();
        Answer { tx_interrupts: tx_interrupts() - before, ..all }
    })
}

/// What calls of Xen take: the cheapest one, and a yield that finds nobody else.
fn called(window: Window) -> Result<Answer, String> {
    let vcpu = OwnVcpu::open().map_err(|error| error.to_string())?;
    window.start.sleep();
    let shortest = |call: &dyn Fn() -> Result<(), lowtail_xen::Error>| {
        let tries = (0..CALLS).map(|_| {
            let began = Instant::now();
            call().map_err(|error| error.to_string())?;
            Ok(Instant::now().since(began).as_ns())
        });
        tries.collect::<Result<Vec<u64>, String>>().map(|mut all| {
            all.sort_unstable();
            all[all.len() / 2]
        })
    };
    let version = shortest(&|| vcpu.xen_version().map(|_| ()))?;
    let yields = shortest(&|| vcpu.yields())?;
    let reading = clock_reading().as_ns();
    let calls_ns = [version, yields].map(|ns| ns.saturating_sub(reading));
    Ok(Answer { calls_ns: Some((calls_ns[0], calls_ns[1])), ..Answer::default() })
}

/// Interrupts that have told this guest that packets of its have left.
fn tx_interrupts() -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    text.lines().filter(|line| line.ends_with("-tx")).map(count).sum()
}

/// How often an interrupt came, of a line of `/proc/interrupts`: on each CPU, between its number and its kind.
fn count(line: &str) -> u64 {
    let on_each = line.split_ascii_whitespace().skip(1);
    on_each.map_while(|word| word.parse::<u64>().ok()).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a guest with two vCPUs.
    #[test]
    fn interrupts_of_all_cpus_count() {
        let line = " 20:       1203          7  xen-dyn    -event     eth0-q0-tx";
        assert_eq!(count(line), 1_210);
    }
}
