//! What recording costs.

use std::fs;
use std::time::Duration;

use lowtail_observe::record::{Options, Recorder};
use nix::time::{ClockId, clock_gettime};

use crate::limits::ping_pong;
use crate::stand::{self, Stage};

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// `cargo test -p lowtail-observe --release --test record cost -- --ignored --nocapture`
///
/// Nanoseconds in the programs by the kernel's own measure (which itself costs some 20 ns an event), and what
/// it costs two threads on one CPU to wake each other, in processor time and in pairs of
/// runs with and without.
#[test]
#[ignore = "measures"]
fn cost() {
    let Some(_turn) = stand::alone() else { return };
    for threshold in [None, Some(Duration::from_secs(3600))] {
        let before = fs::read_to_string(STATS).unwrap();
        fs::write(STATS, "1").unwrap();
        let mut stage = Stage::default();
        let threads = ping_pong(&mut stage, stand::cpu());
        let mut recorder = Recorder::new(Options { threshold, ..stand::options() }).unwrap();
        let own = run_time_ns();
        let (summary, _) = stand::record(&mut recorder, Duration::from_secs(3));
        let own = run_time_ns() - own;
        let per_s = summary.events * 1_000_000_000 / summary.span_ns;
        println!(
            "threshold {threshold:?}: {per_s} events/s, writer {:.3} % of a core, {} lost",
            own as f64 * 100.0 / summary.span_ns as f64,
            summary.lost
        );
        for program in libbpf_rs::query::ProgInfoIter::default() {
            if program.run_cnt > 1000 && program.name.to_string_lossy().starts_with("on_") {
                let ns = program.run_time_ns as f64 / program.run_cnt as f64;
                let missed = program.recursion_misses;
                println!(
                    "  {:?}: {ns:.0} ns, {} times, {missed} missed",
                    program.name, program.run_cnt
                );
            }
        }
        fs::write(STATS, before).unwrap();
        drop(recorder);
        let mut pairs = Vec::new();
        for _ in 0..15 {
            let without = switches(threads);
            let recorder = Recorder::new(Options { threshold, ..stand::options() }).unwrap();
            let with = switches(threads);
            drop(recorder);
            pairs.push((with, without));
        }
        stage.end();
        pairs.sort_by(|a, b| (a.0 - a.1).total_cmp(&(b.0 - b.1)));
        let (with, without) = pairs[pairs.len() / 2];
        println!(
            "  median pair: {without:.0} ns a switch without, {with:.0} with: {:.0} ns, {:.2} % of a \
             core at 100,000 switches/s",
            with - without,
            (with - without) * 100_000.0 / 1e7
        );
        let all: Vec<f64> = pairs.iter().map(|(with, without)| (with - without).round()).collect();
        println!("  all pairs: {all:?} ns");
    }
}

/// Processor time of these threads for each switch between them, in ns, over half a second. Who else uses the CPU
/// does not count.
fn switches(threads: [u32; 2]) -> f64 {
    let read = |tid: u32, file: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{file}"));
    let sums = || {
        threads.iter().fold((0, 0), |(ns, count), &tid| {
            let ran = read(tid, "schedstat").unwrap();
            let ran: u64 = ran.split(' ').next().unwrap().parse().unwrap();
            let status = read(tid, "status").unwrap();
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            let switches =
                lines.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
            (ns + ran, count + switches.sum::<u64>())
        })
    };
    let before = sums();
    std::thread::sleep(Duration::from_millis(500));
    let after = sums();
    (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
}

/// Processor time of this thread.
fn run_time_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}
