//! How fast hosts and network run in one clock, and what a second job is worth.
//!
//! `small-is-better` whole: five hosts with their schedulers, driver domains and guests, TCP, queues and a
//! switch. Budget: 2 M events a second on one core. All cases with one job, then with two: on two idle
//! cores the second takes half as long, up to the longest case. Wall time, so let the machine be
//! quiet.

use std::time::Instant;

use lowtail_lab::{RunOptions, find, run};

fn main() {
    let shipped = find("small-is-better").expect("it is shipped");
    let experiment = shipped.load().expect("it is right");
    let mut spans = Vec::new();
    for jobs in [1, 2] {
        let options = RunOptions { jobs, ..RunOptions::default() };
        let begun = Instant::now();
        let outcome = run(&experiment, &options, &|_| ()).expect("it runs");
        let wall_s = begun.elapsed().as_secs_f64();
        // Two rows a case, with the same figures of the whole.
        let events: f64 =
            outcome.rows.iter().filter_map(|row| row.get("events")).sum::<f64>() / 2.0;
        println!(
            "{jobs} job(s): {:.1} M events in {wall_s:.1} s, {:.2} M events/s",
            events / 1e6,
            events / wall_s / 1e6
        );
        spans.push(wall_s);
    }
    println!("two jobs are {:.2} times as fast as one", spans[0] / spans[1]);
}
