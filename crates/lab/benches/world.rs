//! How fast hosts and network run in one clock, and what a second job is worth.
//!
//! `small-is-better` whole: five hosts with their schedulers, driver domains and guests, TCP, queues and a
//! switch. Budget: 2 M events a second on one core. All cases with one job, then with two: on two idle
//! cores the second takes half as long, up to the longest case. Wall time, so let the VM be
//! quiet; how much faster two threads of plain arithmetic are than one, in the same round, says what its
//! second core was worth. Medians of three rounds.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use lowtail_lab::{Experiment, RunOptions, find, run};

/// Rounds, each with one job and with two.
const ROUNDS: usize = 3;

fn main() {
    let shipped = find("small-is-better").expect("it is shipped");
    let experiment = shipped.load().expect("it is right");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (events, one_s) = world(&experiment, 1);
        let (_, two_s) = world(&experiment, 2);
        let machine = arithmetic(1) / arithmetic(2) * 2.0;
        println!(
            "{:.1} M events: {:.2} M events/s; two jobs {:.2} times as fast (two threads of arithmetic: {machine:.2})",
            events / 1e6,
            events / one_s / 1e6,
            one_s / two_s,
        );
        rounds.push([events / one_s / 1e6, one_s / two_s, machine]);
    }
    let [rate, jobs, machine] = [0, 1, 2].map(|i| median(rounds.iter().map(|round| round[i])));
    println!(
        "median: {rate:.2} M events/s; two jobs {jobs:.2} times as fast (arithmetic: {machine:.2})"
    );
}

/// Events of the whole experiment, and the seconds that it takes.
fn world(experiment: &Experiment, jobs: usize) -> (f64, f64) {
    let options = RunOptions { jobs, ..RunOptions::default() };
    let begun = Instant::now();
    let outcome = run(experiment, &options, &|_| ()).expect("it runs");
    let wall_s = begun.elapsed().as_secs_f64();
    // Two rows a case, with the same figures of the whole.
    let events: f64 = outcome.rows.iter().filter_map(|row| row.get("events")).sum::<f64>() / 2.0;
    (events, wall_s)
}

/// Seconds until each of `threads` threads has done the same chain of multiplications.
fn arithmetic(threads: usize) -> f64 {
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut x = black_box(1u64);
                for _ in 0..1_000_000_000u64 {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                }
                black_box(x);
            });
        }
    });
    begun.elapsed().as_secs_f64()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
