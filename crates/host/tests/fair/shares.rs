//! Shares, nice values and policies.

use lowtail_host::cgroup::Policy;

use super::*;

/// Threads in the root, on one pCPU for 10 s.
fn on_one(version: FairVersion, threads: &[Thread]) -> Vec<f64> {
    let vms = threads.iter().enumerate().map(|(i, t)| loops(&format!("vm{i}"), 1, vec![*t]));
    let config = host(1, FairConfig::new(version), vms.collect());
    times(&config, Duration::ZERO, Duration::from_s(10)).1
}

/// Three groups with shares 1:2:4, one loop each, on one pCPU: within 1 % in 10 s.
#[test]
fn shares_are_kept() {
    for (name, version) in VERSIONS {
        let vms = (0..3).map(|i| loops(&format!("vm{i}"), 1, vec![inside(i)]));
        let mut config = host(1, FairConfig::new(version), vms.collect());
        config.cgroups = (0..3)
            .map(|i| CgroupConfig { shares: 512 << i, ..CgroupConfig::new(&format!("g{i}"), None) })
            .collect();
        let (_, times) = times(&config, Duration::ZERO, Duration::from_s(10));
        for (i, time) in times.iter().enumerate() {
            let right = 10.0 * f64::from(1 << i) / 7.0;
            assert!((time / right - 1.0).abs() < 0.01, "{name}: {times:?}");
        }
    }
}

/// A group counts as one however many are in it, and its parent's shares come first: of two
/// equal groups one has three threads, the other two groups 1:3.
#[test]
fn shares_are_a_tree() {
    for (name, version) in VERSIONS {
        let vms = vec![
            loops("many", 3, vec![inside(0)]),
            loops("one", 1, vec![inside(2)]),
            loops("three", 1, vec![inside(3)]),
        ];
        let mut config = host(1, FairConfig::new(version), vms);
        config.cgroups = vec![
            CgroupConfig::new("many", None),
            CgroupConfig::new("tree", None),
            CgroupConfig::new("tree/one", Some(Cgroup(1))),
            CgroupConfig { shares: 3072, ..CgroupConfig::new("tree/three", Some(Cgroup(1))) },
        ];
        let (_, times) = times(&config, Duration::ZERO, Duration::from_s(20));
        let right = [20.0 / 6.0, 20.0 / 6.0, 20.0 / 6.0, 2.5, 7.5];
        for (time, right) in times.iter().zip(right) {
            assert!((time / right - 1.0).abs() < 0.015, "{name}: {times:?}");
        }
    }
}

/// `sched(7)` and the kernel's table: nice 5 has 335 for the 1024 of nice 0, nice -5 has 3121;
/// `SCHED_IDLE` has 3.
#[test]
fn nice_values_have_their_weights() {
    for (name, version) in VERSIONS {
        for (thread, weight) in [
            (Thread { nice: 5, ..Thread::default() }, 335.0),
            (Thread { nice: -5, ..Thread::default() }, 3121.0),
            (Thread { policy: Policy::Batch, ..Thread::default() }, 1024.0),
        ] {
            let times = on_one(version, &[Thread::default(), thread]);
            let right = 10.0 * weight / (1024.0 + weight);
            assert!((times[1] / right - 1.0).abs() < 0.01, "{name}: {times:?} for {weight}");
        }
        let idle = Thread { policy: Policy::Idle, ..Thread::default() };
        let times = on_one(version, &[Thread::default(), idle]);
        assert!((0.01..0.06).contains(&times[1]), "{name}: {times:?}");
    }
}

/// Real-time threads come first, by priority, and have 950 ms of each second
/// (`sched_rt_runtime_us`); equals take turns of 100 ms under `SCHED_RR` only.
#[test]
fn realtime_threads_come_first() {
    let thread = |policy| Thread { policy, ..Thread::default() };
    for (name, version) in VERSIONS {
        let near = |times: &[f64], right: &[f64]| {
            let fits = times.iter().zip(right).all(|(time, right)| (time - right).abs() < 0.11);
            assert!(fits, "{name}: {times:?}, should be {right:?}");
        };
        let fair = Thread::default();
        let fifo = |priority| thread(Policy::Fifo(priority));
        let rr = |priority| thread(Policy::Rr(priority));
        near(&on_one(version, &[fair, fifo(1)]), &[0.5, 9.5]);
        near(&on_one(version, &[fifo(1), fifo(2), fair]), &[0.0, 9.5, 0.5]);
        near(&on_one(version, &[fifo(1), fifo(1), fair]), &[9.5, 0.0, 0.5]);
        near(&on_one(version, &[rr(1), rr(1), fair]), &[4.75, 4.75, 0.5]);
    }
}
