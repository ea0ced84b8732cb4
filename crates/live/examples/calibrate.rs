//! Measures what `costs/qemu-icount.toml` has, on a machine with nothing else to do: how late a
//! sleeper is when it is alone, and what it takes to go from one thread to another.
//!
//! `scripts/guest run PROGRAM lowtail`, PROGRAM being this one, prints the figures.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use lowtail_engine::Duration;
use lowtail_host::cgroup::{Policy, Thread};
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_live::thread::{own_cpus, set_cpus, set_policy};
use lowtail_live::{Error, Options};
use nix::unistd::Pid;

/// Turns of each of two threads.
const TURNS: u32 = 5_000;

fn main() -> Result<(), Error> {
    let (sleep, late_limit) = (Duration::from_ms(2), Duration::from_ms(10));
    let sleeper =
        Workload::TimerSleeper { sleep, work: Duration::from_us(20), wakeups: 1, late_limit };
    let scheduler = SchedulerConfig::Fair(lowtail_host::sched::fair::FairConfig::new(
        lowtail_host::sched::fair::FairVersion::Linux612,
    ));
    let config = Config::new(1, scheduler, Costs::FREE, vec![VmConfig::new("sleeper", sleeper)]);
    let alone = lowtail_live::run(&config, &Options::new(Duration::from_s(3), 1), &|_| {})?;
    if let Some(lateness) = &alone.vms[0].latency {
        let (p50, p99) = (lateness.quantile(0.5), lateness.quantile(0.99));
        println!("alone: {} wake-ups, late p50 {p50} p99 {p99}", lateness.n());
    }
    let (turn, call) = (turns(2), turns(1));
    println!("to another thread and back into it: {turn}; a yield to itself: {call}");
    println!("schedule and switch: {}", turn.saturating_sub(call));
    let mut taken = interruptions(Instant::now() + std::time::Duration::from_secs(3));
    taken.sort_unstable();
    let at = |share: f64| taken.get((share * taken.len() as f64) as usize).copied();
    let quantiles = [0.0, 0.1, 0.5, 0.9, 0.99].map(|share| at(share).unwrap_or_default());
    println!(
        "interruptions of who computes, in 3 s: {}, {quantiles:?}, {:?}",
        taken.len(),
        taken.last()
    );
    Ok(())
}

/// What is taken from a thread that reads the clock until `end`: how long each stretch is
/// that it misses, less what a reading takes.
fn interruptions(end: Instant) -> Vec<std::time::Duration> {
    let mut taken = Vec::new();
    let (mut last, mut usual) = (Instant::now(), std::time::Duration::MAX);
    while last < end {
        let now = Instant::now();
        let step = now - last;
        usual = usual.min(step);
        if step > 3 * usual {
            taken.push(step - usual);
        }
        last = now;
    }
    taken
}

/// How long a yield takes among so many threads of one real-time priority, which take turns:
/// with one, that is the system call and a scheduler that finds nobody else.
fn turns(threads: u32) -> Duration {
    let barrier = Barrier::new(threads as usize);
    let began = thread::scope(|scope| {
        let turn = || {
            let first = own_cpus().ok().and_then(|cpus| cpus.first().copied());
            let fifo = Thread { policy: Policy::Fifo(50), ..Thread::default() };
            let own = Pid::from_raw(0);
            let set = set_cpus(own, first.as_slice()).and_then(|()| set_policy(own, &fifo));
            set.expect("root pins and prefers its threads");
            barrier.wait();
            let began = Instant::now();
            (0..TURNS).for_each(|_| thread::yield_now());
            began
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(turn)).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).min()
    });
    let ns = began.map_or(0, |began| began.elapsed().as_nanos() as u64);
    Duration::from_ns(ns / u64::from(TURNS * threads))
}
