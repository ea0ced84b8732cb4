//! Every switch is in the recording, once: the kernel counts them, too.

use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use lowtail_host::cgroup::Policy;
use lowtail_observe::record::Recorder;

use crate::events;
use crate::stand::{self, Stage};

/// Voluntary and other switches of this thread, and a time at which that was so.
fn counted() -> (u64, u64, u64) {
    let tid = nix::unistd::gettid();
    let read = || {
        let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
        let number = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').trim().parse().unwrap()
        };
        (number("voluntary_ctxt_switches"), number("nonvoluntary_ctxt_switches"))
    };
    loop {
        let (before, at_ns, after) = (read(), stand::now_ns(), read());
        if before == after {
            return (before.0, before.1, at_ns);
        }
    }
}

/// A thread that sleeps, yields and is preempted by another: what `/proc` counts is what is recorded, to the one.
#[test]
fn switches_are_as_many_as_the_kernel_counts() {
    let Some(_turn) = stand::alone() else { return };
    let (cpu, mut stage) = (stand::cpu(), Stage::default());
    let mut recorder = Recorder::new(stand::options()).unwrap();
    let (tell, told) = channel();
    let hog = stand::hog(Duration::from_millis(1), Duration::from_millis(3));
    stage.add("hog", vec![cpu], Policy::Fifo(1), hog);
    let tid = stage.add("counted", vec![cpu], Policy::Other, move |_| {
        // The recording begins meanwhile.
        std::thread::sleep(Duration::from_millis(300));
        let first = counted();
        // A third of them sleeps, but for those that are interrupted on the way until the time has passed.
        for turn in 0..360_u64 {
            match turn % 3 {
                0 => std::thread::sleep(Duration::from_micros(200)),
                1 => std::thread::yield_now(),
                _ => stand::burn_until(stand::now_ns() + 4_000_000),
            }
        }
        tell.send((first, counted())).unwrap();
    });
    let mut result = None;
    let (summary, file) = recorder
        .run(Vec::new(), |_| {
            result = result.or_else(|| told.try_recv().ok());
            result.is_some()
        })
        .unwrap();
    stage.end();
    let ((voluntary, other, from_ns), (voluntary_end, other_end, to_ns)) = result.unwrap();
    let (events, lost) = events::all(&file);
    assert_eq!((lost, summary.lost), (0, 0));
    let within = |event: &&events::Event| {
        event.kind == 0 && event.tid == tid && (from_ns..to_ns).contains(&event.at_ns)
    };
    // 0: it could go on; 6: it was preempted in the kernel.
    let involuntary = |event: &events::Event| matches!(event.how, 0 | 6);
    let (mut blocked, mut ran_on) = (0, 0);
    for event in events.iter().filter(within) {
        if involuntary(event) { ran_on += 1 } else { blocked += 1 }
    }
    println!("{blocked} voluntary, {ran_on} other switches");
    assert_eq!((blocked, ran_on), (voluntary_end - voluntary, other_end - other));
    assert!(blocked >= 100 && ran_on >= 100);
    // Who is switched out was switched in. There are kernels that do not tell of some switches, such as those away from
    // an agent of the hypervisor's: then another leaves than has come last.
    let came = |event: &&events::Event| event.kind == 0 && event.cpu == cpu as u32;
    let switches: Vec<_> = events.iter().filter(came).collect();
    // It runs at either end: what is not told of comes after the first of a pair and before it leaves.
    let in_time = |event: &events::Event| (from_ns..to_ns).contains(&event.at_ns);
    let untold = switches
        .windows(2)
        .filter(|pair| in_time(pair[0]) && pair[0].other != tid && pair[1].tid == tid);
    let untold = untold.count();
    let into = switches.iter().filter(|event| event.other == tid && in_time(event)).count();
    println!("{into} times switched in, {untold} not told");
    assert_eq!((into + untold) as u64, blocked + ran_on);
    assert!(untold * 16 <= into, "{untold} of {into}");
}
