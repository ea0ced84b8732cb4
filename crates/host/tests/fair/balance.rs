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

/// Where a sleeper was after `from`, beside a loop on the first pCPU.
fn places_of_a_sleeper(version: FairVersion, topology: Topology, from: Duration) -> CpuSet {
    let near = Thread { pin: CpuSet::only(Pcpu(0)), ..Thread::default() };
    let vms = vec![
        sleeper("sleeper", Duration::from_ms(1), Duration::from_us(10), Thread::default()),
        loops("hog", 1, vec![near]),
    ];
    let pcpus = topology.nodes.iter().map(CpuSet::len).sum::<u32>() as u16;
    let config = Config { topology: Some(topology), ..host(pcpus, FairConfig::new(version), vms) };
    let mut host = Host::new(&config, 1).expect("valid");
    let mut seen = CpuSet::EMPTY;
    host.run_watched(Time::ZERO + Duration::from_s(1), Duration::from_us(700), |host| {
        if host.state().now >= Time::ZERO + from {
            seen.insert(host.state().vcpus[0].processor);
        }
    });
    seen
}

/// One who wakes goes to an idle pCPU of its socket, not of the other one.
#[test]
fn wakers_stay_in_their_socket() {
    for (name, version) in VERSIONS {
        let topology = Topology::even(4, 2, 1).expect("even");
        let seen = places_of_a_sleeper(version, topology, Duration::ZERO);
        assert!(seen.minus(CpuSet::first_n(2)).is_empty(), "{name}: {seen:?}");
    }
}

fn set(pcpus: &[u16]) -> CpuSet {
    pcpus.iter().map(|&p| Pcpu(p)).collect()
}

/// Two nodes of two caches each, which a core shares whose threads are numbered apart.
fn caches_in_nodes() -> Topology {
    let caches = vec![set(&[0, 4]), set(&[1, 5]), set(&[2, 6]), set(&[3, 7])];
    let nodes = vec![set(&[0, 1, 4, 5]), set(&[2, 3, 6, 7])];
    Topology { cores: caches.clone(), caches, sockets: nodes.clone(), nodes }
}

/// Threads that begin on one cache spread over the caches of the node, then over nodes: one on each.
#[test]
fn loops_spread_over_caches_and_nodes() {
    for (name, version) in VERSIONS.into_iter().skip(1) {
        let config = Config {
            topology: Some(caches_in_nodes()),
            ..host(8, FairConfig::new(version), vec![loops("vm", 4, Vec::new())])
        };
        let mut host = Host::new(&config, 1).expect("valid");
        host.run_to(Time::ZERO + Duration::from_s(2));
        let on = |cache: &CpuSet| {
            let busy = cache.iter().filter(|p| host.state().current[p.index()].is_some());
            busy.count()
        };
        let busy: Vec<usize> = caches_in_nodes().caches.iter().map(on).collect();
        assert_eq!(busy, [1, 1, 1, 1], "{name}");
    }
}

/// One who wakes looks for an idle pCPU in its cache, not in the rest of its node. Where it begins is another matter.
#[test]
fn wakers_stay_in_their_cache() {
    for (name, version) in VERSIONS {
        let seen = places_of_a_sleeper(version, caches_in_nodes(), Duration::from_ms(10));
        let caches = caches_in_nodes().caches;
        let stays = caches.iter().any(|cache| seen.minus(*cache).is_empty());
        assert!(stays && !seen.is_empty(), "{name}: {seen:?}");
    }
}
