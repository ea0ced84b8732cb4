//! Delays and blame against the stand-in's own clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lowtail_host::cgroup::Policy;
use lowtail_observe::record::Recorder;
use lowtail_trace::{info, latency};

use crate::stand::{self, Stage};
use crate::tries::tries;

/// By nearest rank, as `lowtail trace` does.
fn percentile_us(sorted_ns: &[u64], per_cent: usize) -> f64 {
    sorted_ns[(sorted_ns.len() * per_cent).div_ceil(100) - 1] as f64 / 1e3
}

/// A server that sleeps for 2 to 4 ms is kept waiting by a hog, which goes first for 6 of each 10 ms: it waits up to
/// 6 ms, and knows for how long. Both go before whatever else is on this host. The recording knows too, and who it was.
#[test]
fn delays_are_those_of_the_servers_own_clock_and_the_hog_is_blamed() {
    let Some(_turn) = stand::alone() else { return };
    tries(|| {
        let (cpu, mut stage) = (stand::cpu(), Stage::default());
        let late_ns = Arc::new(Mutex::new(Vec::new()));
        let server = stand::server(Duration::from_millis(3), Arc::clone(&late_ns));
        let tid = stage.add("server", vec![cpu], Policy::Fifo(1), server);
        let hog = stand::hog(Duration::from_millis(6), Duration::from_millis(10));
        let hog_tid = stage.add("hog", vec![cpu], Policy::Fifo(2), hog);
        let mut recorder = Recorder::new(stand::options()).unwrap();
        let (summary, file) = stand::record(&mut recorder, Duration::from_secs(4));
        stage.end();
        assert_eq!(summary.lost, 0);
        let about = info(&file[..], &Default::default()).unwrap();
        let (begin, end) = (about.first_tsc.unwrap(), about.last_tsc.unwrap());
        let late_ns = late_ns.lock().unwrap();
        let within = late_ns.iter().filter(|(due, late)| *due >= begin && due + late <= end);
        let mut own: Vec<u64> = within.map(|&(_, late)| late).collect();
        own.sort_unstable();
        let found = latency(&file[..], &Default::default()).unwrap();
        let of = |tid: u32| {
            let is = |thread: &lowtail_trace::ThreadInfo| thread.tid == tid;
            found.vcpus.iter().find(|vcpu| vcpu.thread.as_ref().is_some_and(is)).unwrap()
        };
        let server = of(tid);
        assert!(server.vcpu.starts_with("web "), "{}", server.vcpu);
        let recorded = [server.wakeup_latency.p50, server.wakeup_latency.p99].map(Option::unwrap);
        for (per_cent, us) in [50, 99].into_iter().zip(recorded) {
            let own_us = percentile_us(&own, per_cent);
            println!("p{per_cent}: {own_us:.1} us by its own clock, {us:.1} us recorded");
            let off = (us - own_us).abs();
            assert!(off <= 20.0 || off <= 0.05 * own_us, "{us} us recorded, {own_us} us");
        }
        // Whoever is interrupted on its way to sleep until the time has passed does not sleep.
        let (n, turns) = (server.wakeup_latency.n as usize, own.len());
        assert!(
            n <= turns + 1 && turns - n.min(turns) <= 2 + turns / 50,
            "{turns} sleeps, {n} recorded"
        );
        let blame = &server.blame[0];
        assert_eq!(blame.vcpu, of(hog_tid).vcpu, "{:?}", server.blame);
        println!("blamed: {} {:.1} %", blame.vcpu, blame.share * 100.0);
        assert!(blame.share > 0.8, "{:?}", server.blame);
    });
}
