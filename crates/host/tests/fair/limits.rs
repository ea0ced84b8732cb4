//! Limits of groups: `Documentation/scheduler/sched-bwc.rst`.

use super::*;

/// One loop in a group with `limit` on one pCPU.
fn lone(version: FairVersion, limit: Option<Limit>) -> Config {
    let mut config = host(1, FairConfig::new(version), vec![loops("hog", 1, vec![inside(0)])]);
    config.cgroups = vec![CgroupConfig { limit, ..CgroupConfig::new("hog", None) }];
    config
}

/// Half a pCPU in periods of 10 to 500 ms: within 1 % over 10 s, and what a tick lets through
/// in one period is missing in the next. The group is throttled in each period, for the other
/// half.
#[test]
fn a_limit_is_kept() {
    for (name, version) in VERSIONS {
        for period in [10, 20, 50, 100, 200, 500] {
            let config = lone(version, limit(period / 2, period));
            // The pool is full from the start, however soon the first period ends.
            let (host, times) = times(&config, Duration::from_s(1), Duration::from_s(11));
            assert!((times[0] / 5.0 - 1.0).abs() < 0.01, "{name}, {period} ms: {times:?}");
            let stats = host.cgroup_stats(Cgroup(0)).expect("limited");
            assert!(stats.periods.abs_diff(11_000 / period) <= 1, "{name}: {stats:?}");
            // A short one may be missed when the tick before has taken its quota as well.
            let missed = stats.periods - stats.throttled_periods;
            assert!(period < 50 || missed <= 1, "{name}, {period} ms: {stats:?}");
            let throttled = stats.throttled.as_s_f64();
            assert!((throttled / 5.5 - 1.0).abs() < 0.06, "{name}, {period} ms: {stats:?}");
        }
    }
}

/// In no period more than the quota and a tick.
#[test]
fn a_tick_is_the_most_that_is_overrun() {
    for (name, version) in VERSIONS {
        let mut fair = FairConfig::new(version);
        // So that it is known where a period ends.
        fair.periods_in_step = true;
        let tick = 1.0 / f64::from(fair.hz);
        let config =
            Config { scheduler: SchedulerConfig::Fair(fair), ..lone(version, limit(30, 100)) };
        let mut host = Host::new(&config, 1).expect("valid");
        let (mut last, mut most) = (0.0, 0.0f64);
        host.run_watched(Time::ZERO + Duration::from_s(10), Duration::from_ms(100), |host| {
            let time = host.vcpu_time(Vcpu(0)).0.as_s_f64();
            most = most.max(time - last);
            last = time;
        });
        assert!(most <= 0.030 + tick, "{name}: {most}");
    }
}

/// Group and parent, whoever has less.
#[test]
fn the_tighter_of_nested_limits_holds() {
    for (name, version) in VERSIONS {
        for (outer, inner) in [(30, 50), (50, 30)] {
            let vms = vec![loops("hog", 2, vec![inside(1)])];
            let mut config = host(2, FairConfig::new(version), vms);
            config.cgroups = vec![
                CgroupConfig { limit: limit(outer, 100), ..CgroupConfig::new("vm", None) },
                CgroupConfig {
                    limit: limit(inner, 100),
                    ..CgroupConfig::new("vm/vcpus", Some(Cgroup(0)))
                },
            ];
            let (_, times) = times(&config, Duration::from_s(1), Duration::from_s(11));
            let total: f64 = times.iter().sum();
            assert!((total / 3.0 - 1.0).abs() < 0.02, "{name}, {outer} and {inner}: {times:?}");
        }
    }
}

/// A pool is for all pCPUs: four loops on four pCPUs with one pCPU's worth among them.
#[test]
fn a_limit_is_for_all_pcpus() {
    for (name, version) in VERSIONS {
        let vms = vec![loops("vm", 4, vec![inside(0)])];
        let mut config = host(4, FairConfig::new(version), vms);
        config.cgroups =
            vec![CgroupConfig { limit: limit(100, 100), ..CgroupConfig::new("vm", None) }];
        let (host, times) = times(&config, Duration::from_s(1), Duration::from_s(11));
        let total: f64 = times.iter().sum();
        assert!((total / 10.0 - 1.0).abs() < 0.01, "{name}: {times:?}");
        // Each of the four waits for three quarters of the time (`throttled_time` of all pCPUs).
        let stats = host.cgroup_stats(Cgroup(0)).expect("limited");
        assert!((stats.throttled.as_s_f64() / 33.0 - 1.0).abs() < 0.03, "{name}: {stats:?}");
        let pause = stats.longest_pause.as_s_f64();
        assert!((0.07..0.1).contains(&pause), "{name}: {stats:?}");
    }
}

/// Since 5.14 what was not used is kept, up to the burst: behind a long sleep there are
/// `min(runtime + quota, quota + burst)`, 40 ms, in one go, instead of 20.
#[test]
fn a_burst_is_what_was_saved() {
    for (name, version) in VERSIONS.into_iter().skip(4) {
        for burst in [0, 10, 20] {
            let quota = Duration::from_ms(20);
            let burst_of = Duration::from_ms(burst);
            let limit = Limit { quota, period: Duration::from_ms(100), burst: burst_of };
            let mut config = lone(version, Some(limit));
            let (save, burn) = (Duration::from_ms(430), Duration::from_ms(200));
            config.vms[0].workload = Workload::BoostSaver(BoostSaverConfig { save, burn });
            let mut host = Host::new(&config, 1).expect("valid");
            // The longest stretch that it runs in one go.
            let (mut last, mut stretch, mut longest) = (0.0, 0.0, 0.0f64);
            let (end, every) = (Time::ZERO + Duration::from_s(20), Duration::from_us(250));
            host.run_watched(end, every, |host| {
                let ran = host.vcpu_time(Vcpu(0)).0.as_s_f64();
                stretch = if ran > last { stretch + ran - last } else { 0.0 };
                (last, longest) = (ran, longest.max(stretch));
            });
            // A refill may come on the way; ticks let through up to 4 ms.
            let (least, most) = (0.020 + burst as f64 / 1000.0, 0.0445 + burst as f64 / 1000.0);
            assert!((least..=most).contains(&longest), "{name}, {burst} ms: {longest}");
            let stats = host.cgroup_stats(Cgroup(0)).expect("limited");
            assert_eq!(stats.bursts > 0, burst > 0, "{name}: {stats:?}");
            let per_burst = stats.burst.as_s_f64() * 1000.0 / stats.bursts.max(1) as f64;
            assert!(per_burst <= burst as f64, "{name}: {stats:?}");
        }
    }
}

/// The trouble of de53fd7aedb1: 16 pCPUs on which a thread works 0.3 ms each 100 ms, in a group that
/// has 10 ms. With slices of 1 ms each pCPU fetches one, keeps what it does not use (up to 1 ms),
/// and loses it with the period: 16 ms are wanted, there are 10, though 4.8 are used. Without
/// expiry a slice lasts for three periods, and 5.3 ms are wanted.
#[test]
fn slices_that_expire_throttle_who_is_below_the_limit() {
    for (name, version) in VERSIONS {
        for expire_slices in [false, true] {
            let mut fair = FairConfig::new(version);
            let usual = fair.expire_slices;
            fair.expire_slices = expire_slices;
            fair.bandwidth_slice = Duration::from_ms(1);
            let (sleep, work) = (Duration::from_us(99_700), Duration::from_us(300));
            let vms = (0..16).map(|p| {
                let thread = Thread { pin: CpuSet::only(Pcpu(p)), ..inside(0) };
                sleeper(&format!("vm{p}"), sleep, work, thread)
            });
            let mut config = host(16, fair, vms.collect());
            config.cgroups =
                vec![CgroupConfig { limit: limit(10, 100), ..CgroupConfig::new("g", None) }];
            let (host, times) = times(&config, Duration::ZERO, Duration::from_s(10));
            let used = times.iter().sum::<f64>() / 10.0;
            assert!(used < 0.05, "{name}: {used} of 0.1");
            let stats = host.cgroup_stats(Cgroup(0)).expect("limited");
            let often = stats.throttled_periods * 2 > stats.periods;
            let never = stats.throttled_periods <= 3;
            assert!(if expire_slices { often } else { never }, "{name}: {stats:?}");
            assert_eq!(usual, version <= FairVersion::Linux418, "{name}");
        }
    }
}
