//! Too much for a ring, and very many threads.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lowtail_host::cgroup::Policy;
use lowtail_observe::record::{Options, Recorder};
use lowtail_testkit::switches::voluntary_switches;
use lowtail_trace::{info, latency};

use crate::events;
use crate::stand::{self, Stage};
use crate::tries::tries;

/// Two threads that wake each other as fast as they can.
pub(crate) fn ping_pong(stage: &mut Stage, cpu: usize) -> [u32; 2] {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    b.write_all(&[0]).unwrap();
    let ping = move |mut end: UnixStream| {
        move |over: &std::sync::atomic::AtomicBool| {
            while !over.load(Ordering::Relaxed) && end.read_exact(&mut [0]).is_ok() {
                if end.write_all(&[0]).is_err() {
                    break;
                }
            }
            // Whoever still waits for it gets an end instead.
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    };
    let second = b.try_clone().unwrap();
    drop(b);
    a.set_nonblocking(false).unwrap();
    let _ = a.flush();
    [
        stage.add("ping", vec![cpu], Policy::Other, ping(a)),
        stage.add("pong", vec![cpu], Policy::Other, ping(second)),
    ]
}

/// A ring of one page is full in a moment. What does not fit is counted, in the file and in the word at the end, and
/// makes no wrong figure: no wait is longer than one of these threads can wait.
#[test]
fn a_full_ring_tells_its_loss() {
    let Some(_turn) = stand::alone() else { return };
    // A CPU that is taken away makes waits of any length.
    tries(|| {
        let (cpu, mut stage) = (stand::cpu(), Stage::default());
        let threads = ping_pong(&mut stage, cpu);
        let options = Options { ring_bytes: 4096, ..stand::options() };
        let mut recorder = Recorder::new(options).unwrap();
        let (summary, file) = stand::record(&mut recorder, Duration::from_secs(1));
        stage.end();
        let (events, lost) = events::all(&file);
        println!("{} events, {lost} lost", events.len());
        assert!(lost > 1000, "{lost}");
        assert_eq!((events.len() as u64, lost), (summary.events, summary.lost));
        let found = info(&file[..], &Default::default()).unwrap();
        assert_eq!((found.records, found.lost.records), (summary.events, lost));
        let found = latency(&file[..], &Default::default()).unwrap();
        assert_eq!(found.records.lost, lost);
        for vcpu in &found.vcpus {
            let thread = vcpu.thread.as_ref().unwrap();
            if threads.contains(&thread.tid) {
                // A gap is some 45 ms of each 50 long; a wait across one would be as long.
                let p99_us = vcpu.wakeup_latency.p99.unwrap();
                assert!(p99_us < 20_000.0, "{:?} of {} wakeups", vcpu.wakeup_latency, vcpu.wakeups);
                assert!(vcpu.excluded.lost > 0, "{:?}", vcpu.excluded);
            }
        }
    });
}

/// The same threads with a ring of ordinary size: all is there.
#[test]
fn a_ring_of_ordinary_size_loses_nothing() {
    let Some(_turn) = stand::alone() else { return };
    tries(|| {
        let (cpu, mut stage) = (stand::cpu(), Stage::default());
        let other = (cpu + 1) % 2;
        ping_pong(&mut stage, cpu);
        ping_pong(&mut stage, other);
        let mut recorder = Recorder::new(stand::options()).unwrap();
        let (summary, _) = stand::record(&mut recorder, Duration::from_secs(2));
        stage.end();
        let per_s = summary.events * 1_000_000_000 / summary.span_ns;
        println!("{per_s} events/s");
        assert_eq!(summary.lost, 0);
        assert!(per_s > 20_000);
    });
}

#[test]
fn two_thousand_threads() {
    let Some(_turn) = stand::alone() else { return };
    let (cpu, mut stage) = (stand::cpu(), Stage::default());
    let mut tids = Vec::new();
    for number in 0..2000_u64 {
        let name = format!("CPU {number}/KVM");
        tids.push(stage.add(&name, vec![cpu], Policy::Other, move |over| {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50 + number % 50));
            }
        }));
    }
    let mut recorder = Recorder::new(stand::options()).unwrap();
    // What the kernel counts around the recording, and within it.
    let slept = || tids.iter().map(|&tid| voluntary_switches(tid)).collect::<Vec<_>>();
    let (around, mut within, mut within_end) = (slept(), Vec::new(), Vec::new());
    let over = |passed| {
        if within.is_empty() {
            within = slept();
        }
        if passed >= Duration::from_secs(2) {
            within_end = slept();
        }
        !within_end.is_empty()
    };
    let (summary, file) = recorder.run(Vec::new(), over).unwrap();
    let around_end = slept();
    stage.end();
    assert_eq!((summary.lost, summary.lost_names), (0, 0));
    let found = latency(&file[..], &Default::default()).unwrap();
    let mut all = 0;
    for (number, &tid) in tids.iter().enumerate() {
        let is = |thread: &lowtail_trace::ThreadInfo| thread.tid == tid;
        let vcpu = found.vcpus.iter().find(|vcpu| vcpu.thread.as_ref().is_some_and(is)).unwrap();
        let thread = vcpu.thread.as_ref().unwrap();
        assert_eq!(thread.comm.as_deref(), Some(&*format!("CPU {number}/KVM")));
        assert_eq!(thread.vm.as_deref(), Some("web"));
        // 20 to 40 on a host that serves all. A thread that sleeps at one end has a sleep there without its wake-up, or the other
        // way round.
        let (most, least) =
            (around_end[number] - around[number] + 1, within_end[number] - within[number]);
        assert!(vcpu.wakeups <= most, "{number}: {} of {most}", vcpu.wakeups);
        assert!(vcpu.wakeups + 1 >= least, "{number}: {} of {least}", vcpu.wakeups);
        all += least;
    }
    assert!(all > 2000, "threads sleep: {all}");
}
