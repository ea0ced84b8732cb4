//! Measures what `costs/qemu-icount.toml` has, on a machine with nothing else to do: how late a
//! sleeper is when it is alone, and what it takes to go from one thread to another.
//!
//! `scripts/guest run PROGRAM lowtail`, PROGRAM being this one, prints the figures; with `small-first` behind it, those of
//! `costs/qemu-icount-ext.toml`, with the threads in our scheduler.

use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Instant;

use lowtail_control::vcpu;
use lowtail_engine::{Distribution, Duration};
use lowtail_host::cgroup::{Policy, Thread};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_kernel::Error;
use lowtail_kernel::thread::{own_cpus, set_cpus, set_policy};
use lowtail_play::Options;
use nix::unistd::{Pid, gettid};

/// Turns of each of two threads.
const TURNS: u32 = 5_000;

fn main() -> Result<(), Error> {
    let (sleep, late_limit) = (Duration::from_ms(2), Duration::from_ms(10));
    let sleeper = Workload::TimerSleeper(TimerSleeperConfig {
        sleep: Distribution::Fixed(sleep),
        work: Duration::from_us(20),
        wakeups: 1,
        late_limit,
    });
    let ours = std::env::args().nth(1).is_some_and(|word| word == "small-first");
    let scheduler = if ours {
        SchedulerConfig::SmallFirst(Default::default())
    } else {
        SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612))
    };
    let config = Config::new(1, scheduler, Costs::FREE, vec![VmConfig::new("sleeper", sleeper)]);
    let alone = lowtail_play::run(&config, &Options::new(Duration::from_s(3), 1), &|_| {})?;
    if let Some(lateness) = &alone.vms[0].latency {
        let (p50, p99) = (lateness.quantile(0.5), lateness.quantile(0.99));
        println!("alone: {} wake-ups, late p50 {p50} p99 {p99}", lateness.n());
        println!("processor time a wake-up: {}", alone.vms[0].cpu[0] / lateness.n());
    }
    let (turn, call) = (turns(2, ours)?, turns(1, ours)?);
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

/// How long a yield takes among so many threads that take turns, of one real-time priority or, if they are `ours`, as
/// VMs of our scheduler: with one, that is the system call and a scheduler that finds nobody else.
fn turns(threads: u32, ours: bool) -> Result<Duration, Error> {
    let mut scheduler = None;
    if ours {
        scheduler = Some(vcpu::Scheduler::load(&vcpu::Options::default())?);
    }
    let (here, barrier) = (Barrier::new(threads as usize + 1), Barrier::new(threads as usize));
    let (tell, told) = mpsc::channel();
    let turn = |tell: mpsc::Sender<Pid>| {
        let first = own_cpus().ok().and_then(|cpus| cpus.first().copied());
        let fifo = Thread { policy: Policy::Fifo(50), ..Thread::default() };
        let own = Pid::from_raw(0);
        set_cpus(own, first.as_slice()).expect("root pins its threads");
        if !ours {
            set_policy(own, &fifo).expect("root prefers its threads");
        }
        tell.send(gettid()).expect("somebody hears");
        here.wait();
        barrier.wait();
        let began = Instant::now();
        (0..TURNS).for_each(|_| thread::yield_now());
        began
    };
    thread::scope(|scope| {
        let turn = &turn;
        let hire = |_| {
            let tell = tell.clone();
            scope.spawn(move || turn(tell))
        };
        let all: Vec<_> = (0..threads).map(hire).collect();
        let mut moved = Ok(());
        for tid in told.iter().take(threads as usize) {
            if let Some(scheduler) = &mut scheduler {
                let threads = vec![vcpu::Thread { tid: tid.as_raw() as u32, ..Default::default() }];
                let machine = vcpu::Vm { vcpus: 1, threads, ..Default::default() };
                moved = moved.and_then(|()| scheduler.add(&machine).map(|_| ()));
            }
        }
        here.wait();
        let began = all.into_iter().filter_map(|thread| thread.join().ok()).min();
        let ns = began.map_or(0, |began| began.elapsed().as_nanos() as u64);
        moved.map(|()| Duration::from_ns(ns / u64::from(TURNS * threads)))
    })
}
