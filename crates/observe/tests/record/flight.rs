//! What has come before a wait that was too long.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lowtail_host::cgroup::Policy;
use lowtail_observe::record::{Failure, Options, Recorder};
use lowtail_trace::{info, latency};

use crate::stand::{self, Stage};
use crate::tries::tries;

/// One spike among calm: 30 ms once, by a thread that does nothing else. The recording that is kept has the wait, its
/// length by the server's own clock, and its cause; and it goes back as far as was asked for.
#[test]
fn a_spike_and_its_cause_are_caught_after_the_fact() {
    let Some(_turn) = stand::alone() else { return };
    tries(|| {
        let (cpu, mut stage) = (stand::cpu(), Stage::default());
        let late_ns = Arc::new(Mutex::new(Vec::new()));
        let server = stand::server(Duration::from_millis(2), Arc::clone(&late_ns));
        // It goes before everybody but the spike, so that nothing else on this host makes it late.
        let tid = stage.add("server", vec![cpu], Policy::Fifo(1), server);
        stage.add("spike", vec![cpu], Policy::Fifo(2), move |over| {
            stand::sleep_until(stand::now_ns() + 1_500_000_000);
            stand::burn_until(stand::now_ns() + 30_000_000);
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let threshold = Some(Duration::from_millis(15));
        let mut recorder = Recorder::new(Options { threshold, ..stand::options() }).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        assert!(recorder.watch(|| Instant::now() > deadline).unwrap(), "the spike was not noticed");
        let (summary, file) = recorder.keep(Vec::new(), Duration::from_millis(500)).unwrap();
        stage.end();
        assert_eq!(summary.lost, 0);
        let found = info(&file[..], &Default::default()).unwrap();
        let recorded = found.recorded.as_ref().unwrap();
        let trigger = recorded.triggers.iter().find(|trigger| trigger.tid == tid).unwrap();
        // The server's own wait that ended then, not its longest: before the recorder watches, the server may have
        // waited longer for the programs of the kernel to load.
        let late_ns = late_ns.lock().unwrap();
        let ended = |late: &&(u64, u64)| trigger.at_ns.abs_diff(late.0 + late.1);
        let own = late_ns.iter().min_by_key(ended).copied().unwrap();
        let off = trigger.delay_ns.abs_diff(own.1);
        println!("{} ns noticed, {} ns by its own clock", trigger.delay_ns, own.1);
        assert!(off < 20_000 || off < own.1 / 20, "{trigger:?} {own:?}");
        assert!(trigger.at_ns.abs_diff(own.0 + own.1) < 1_000_000);
        // Half a second before, a tenth after, and what it takes to notice.
        assert!((580e3..900e3).contains(&found.span_us), "{} us", found.span_us);
        let found = latency(&file[..], &Default::default()).unwrap();
        let server =
            found.vcpus.iter().find(|vcpu| vcpu.thread.as_ref().unwrap().tid == tid).unwrap();
        assert!(server.wakeup_latency.max.unwrap() > 15_000.0);
        assert!(server.blame[0].vcpu.contains("spike"), "{:?}", server.blame);
        assert!(
            server.wakeup_latency.n > 200,
            "the calm before it is there, too: {}",
            server.wakeup_latency.n
        );
    });
}

/// Where there is no VM, nobody's wait can be too long, and that is said at once.
#[test]
fn nobody_to_watch() {
    let Some(_turn) = stand::alone() else { return };
    let declared = vec!["gone=4194303".parse().unwrap()];
    let threshold = Some(Duration::from_millis(5));
    let options = Options { declared, threshold, ..Options::default() };
    let mut recorder = Recorder::new(options).unwrap();
    let failure = recorder.watch(|| true).unwrap_err();
    assert!(matches!(failure, Failure::Nobody(_)), "{failure}");
    assert!(failure.to_string().contains("--vm NAME=CGROUP"), "{failure}");
}
