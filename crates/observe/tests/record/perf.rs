//! `lowtail trace` of perf's own recording, against what perf says of it.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lowtail_host::cgroup::Policy;
use lowtail_observe::record::Recorder;
use lowtail_trace::{Layout, Options, latency};

use crate::needs::{has, skip};
use crate::stand::{self, Stage};
use crate::tries::tries;

/// perf finds the tracepoints where tracefs is mounted; it is, in a mount namespace of its own.
const SCRIPT: &str = r#"
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || exit 77
perf record -q -a -o "$1" -e sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new sleep 2
perf sched timehist -i "$1" 2>/dev/null
perf record -q -a -o - -e sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new sleep 1 >"$2" 2>/dev/null
"#;

/// The delays from waking to running, in microseconds, that `perf sched timehist` shows for a thread.
fn timehist_us(text: &str, tid: u32) -> Vec<f64> {
    let is_of =
        |line: &&str| line.contains(&format!("[{tid}/")) || line.contains(&format!("[{tid}]"));
    let delay_us = |line: &str| -> Option<f64> {
        // … wait time, sch delay, run time; in ms with three digits behind the point.
        let cells: Vec<&str> = line.split_whitespace().collect();
        let ms: f64 = cells.get(cells.len().checked_sub(2)?)?.parse().ok()?;
        Some(ms * 1e3).filter(|&us| us > 0.0)
    };
    let mut all: Vec<f64> = text.lines().filter(is_of).filter_map(delay_us).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// The figures of `perf sched timehist`, an independent program, for the same file; and ours for a recording of our own made
/// meanwhile.
#[test]
fn delays_are_those_that_perf_finds_in_its_own_file() {
    let Some(_turn) = stand::alone() else { return };
    tries(|| {
        if skip((!has("perf")).then_some("no perf")) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (path, cpu, mut stage) = (dir.path().join("perf.data"), stand::cpu(), Stage::default());
        let server = stand::server(Duration::from_millis(3), Arc::new(Mutex::new(Vec::new())));
        let tid = stage.add("server", vec![cpu], Policy::Fifo(1), server);
        let hog = stand::hog(Duration::from_millis(6), Duration::from_millis(10));
        stage.add("hog", vec![cpu], Policy::Fifo(2), hog);
        // Linux 6.18 does not tell perf of most switches that an idle CPU makes (from `swapper`): this one never idles.
        stage.add("loop", vec![cpu], Policy::Idle, |over| while !over.load(Ordering::Relaxed) {});
        let pipe = dir.path().join("pipe.data");
        let files = [path.clone(), pipe.clone()];
        let perf = std::thread::spawn(move || {
            let shell = ["-m", "sh", "-c", SCRIPT, "sh"];
            Command::new("unshare").args(shell).args(files).output().unwrap()
        });
        let mut recorder = Recorder::new(stand::options()).unwrap();
        let (_, own) = recorder.run(Vec::new(), |_| perf.is_finished()).unwrap();
        let output = perf.join().unwrap();
        stage.end();
        let refused = output.status.code() == Some(77);
        if skip(refused.then_some("tracefs cannot be mounted")) {
            return;
        }
        let perf_us = timehist_us(&String::from_utf8_lossy(&output.stdout), tid);
        assert!(perf_us.len() > 100, "{}", String::from_utf8_lossy(&output.stderr));
        let read = |path: &Path| {
            let perf_layout = Layout::look_ahead(path).unwrap();
            let options = Options { perf_layout, ..Options::default() };
            latency(File::open(path).unwrap(), &options).unwrap()
        };
        let found = read(&path);
        let of = |found: &lowtail_trace::Latency| {
            let is = |thread: &lowtail_trace::ThreadInfo| thread.tid == tid;
            let found = found.vcpus.iter().find(|vcpu| vcpu.thread.as_ref().is_some_and(is));
            found.unwrap().clone()
        };
        let server = of(&found);
        let ours = &server.wakeup_latency;
        let at = |per_cent: usize| perf_us[(perf_us.len() * per_cent).div_ceil(100) - 1];
        println!("perf: n {} p50 {} p99 {} max {}", perf_us.len(), at(50), at(99), at(100));
        println!("ours: {ours:?}");
        let (n, perf_us_count) = (ours.n as usize, perf_us.len());
        // perf shows a stay on a CPU when it ends: the last one may be missing. All others are there, so that what is of one
        // rank here has there the same rank, or the one below it.
        assert!((perf_us_count..=perf_us_count + 1).contains(&n));
        for (per_cent, ours) in [(50, ours.p50), (99, ours.p99), (100, ours.max)] {
            let (rank, ours_us) = ((n * per_cent).div_ceil(100), ours.unwrap());
            let below = rank - (n - perf_us_count);
            let least = if below == 0 { 0.0 } else { perf_us[below - 1] };
            let most = perf_us.get(rank - 1).copied().unwrap_or(f64::INFINITY);
            let agree = (least - 1.0..=most + 1.0).contains(&ours_us);
            assert!(agree, "{per_cent} %: {ours_us} us here, perf {least} to {most}");
        }
        let blamed = &server.blame[0];
        assert!(blamed.vcpu.starts_with("hog[") && blamed.share > 0.9, "{:?}", server.blame);
        // What came out of the pipe is of another second, and what we have recorded of all the time.
        let piped = of(&latency(File::open(&pipe).unwrap(), &Options::default()).unwrap());
        let own = of(&latency(&own[..], &Options::default()).unwrap());
        for other in [piped.wakeup_latency, own.wakeup_latency] {
            println!("same threads: {other:?}");
            // Not the p99: that is the second of a hundred, and what it is depends on what else this host did in that second.
            let off = (other.p90.unwrap() / at(90) - 1.0).abs();
            // A second of wake-ups each 10 ms, of which this kernel does not tell all.
            assert!(off < 0.1 && other.n > 80, "{other:?}");
        }
    });
}
