//! Which pCPU.

use super::*;

/// Who waits may not leave, who runs may: after a few passes in vain the latter goes to the pCPU
/// that idles.
#[test]
fn who_runs_makes_room_for_who_is_pinned() {
    for (name, version) in VERSIONS.into_iter().skip(1) {
        let pinned = Thread { pin: CpuSet::only(Pcpu(0)), ..Thread::default() };
        let vms = vec![loops("free", 1, Vec::new()), loops("pinned", 1, vec![pinned])];
        let config = host(2, FairConfig::new(version), vms);
        let (_, times) = times(&config, Duration::from_s(1), Duration::from_s(2));
        assert!(times.iter().all(|&time| time > 0.999), "{name}: {times:?}");
    }
}

/// Three loops on two pCPUs: the busy ones exchange threads now and then, so that each gets about two
/// thirds in the long run, and not one of them half and another one all.
#[test]
fn three_loops_share_two_pcpus() {
    for (name, version) in VERSIONS {
        let config = host(2, FairConfig::new(version), vec![loops("vm", 3, Vec::new())]);
        let (_, times) = times(&config, Duration::from_s(1), Duration::from_s(61));
        let total: f64 = times.iter().sum();
        assert!((total - 120.0).abs() < 0.01, "{name}: {times:?}");
        let near = times.iter().all(|time| (time / 40.0 - 1.0).abs() < 0.15);
        assert!(near, "{name}: {times:?}");
    }
}

/// One who wakes goes to an idle pCPU of its socket, not of the other one.
#[test]
fn wakers_stay_in_their_socket() {
    for (name, version) in VERSIONS {
        let near = |p: u16| Thread { pin: CpuSet::only(Pcpu(p)), ..Thread::default() };
        let vms = vec![
            sleeper("sleeper", Duration::from_ms(1), Duration::from_us(10), Thread::default()),
            loops("hog", 1, vec![near(0)]),
        ];
        let config = Config { sockets: 2, ..host(4, FairConfig::new(version), vms) };
        let mut host = Host::new(&config, 1).expect("valid");
        let mut seen = CpuSet::EMPTY;
        host.run_watched(Time::ZERO + Duration::from_s(1), Duration::from_us(700), |host| {
            seen.insert(host.state().vcpus[0].processor);
        });
        assert!(seen.minus(CpuSet::first_n(2)).is_empty(), "{name}: {seen:?}");
    }
}
