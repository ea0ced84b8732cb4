//! What small-first promises, with figures that follow from its rule (`policy/vcpu.h`).

mod random;

use lowtail_engine::{Duration, Rng, Time};
use lowtail_host::cgroup::{CgroupConfig, Limit, Thread};
use lowtail_host::guest::Distribution;
use lowtail_host::guest::request_server::{Load, Path, RequestServerConfig};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{
    Cgroup, Config, Costs, CpuSet, Dom, Host, Pcpu, SchedulerConfig, Vcpu, VmConfig, Workload,
};
use random::{COSTS, random_vm, us};

fn host(pcpus: u16, costs: Costs, vms: Vec<VmConfig>) -> Config {
    let scheduler = SchedulerConfig::SmallFirst(SmallFirstConfig::default());
    Config::new(pcpus, scheduler, costs, vms)
}

fn cpu_loop(name: &str) -> VmConfig {
    VmConfig::new(name, Workload::CpuLoop)
}

/// A server of requests by chance, each of which takes `service`; `tx_completion` is when it hears that its answer has left.
fn server(
    name: &str,
    every: Duration,
    service: Duration,
    tx_completion: Option<Distribution>,
) -> VmConfig {
    let server = RequestServerConfig {
        load: Load::Open(Distribution::Exponential(every)),
        service: Distribution::Fixed(service),
        path: Path::fixed(us(20)),
        tx_completion,
        client: None,
        network_work: Duration::ZERO,
        after_reply: Distribution::ZERO,
        tx_completion_percent: 100,
        tx_completion_work: us(1),
        requests: None,
        warmup: 0,
        half: false,
    };
    VmConfig::new(name, Workload::RequestServer(server))
}

/// A random host under small-first: nobody pinned or capped.
fn random_host(seed: u64) -> Config {
    let mut rng = Rng::new(seed, "random host");
    let pcpus = 1 + rng.below(4) as u16;
    // Full ones mostly: who shares a pCPU with nobody does not wait.
    let vms = u64::from(pcpus) + 1 + rng.below(2 * u64::from(pcpus));
    let vm = |i| VmConfig {
        hard: CpuSet::first_n(CpuSet::MAX_PCPUS),
        soft: CpuSet::first_n(CpuSet::MAX_PCPUS),
        ..random_vm(i, pcpus, false, &mut rng)
    };
    host(pcpus, COSTS, (0..vms).map(vm).collect())
}

/// A turn of a large vCPU, and the turns after which one that waits goes first.
const TURN_MS: f64 = 10.0;
const WAIT_TURNS: f64 = 4.0;
/// What one that goes first takes from the next: 1 ms undisturbed, and switches.
const GUARDED_MS: f64 = 2.0;

/// The longest wait that the rule allows to a vCPU of each VM.
fn longest_waits(config: &Config) -> Vec<Duration> {
    let total: f64 = config.vms.iter().map(|vm| f64::from(vm.weight)).sum();
    let vcpus: f64 = config.vms.iter().map(|vm| f64::from(vm.vcpus)).sum();
    let bound = |vm: &VmConfig| {
        let share = f64::from(config.pcpus) * f64::from(vm.weight) / total;
        let each = (share / f64::from(vm.vcpus)).min(1.0);
        let ms = WAIT_TURNS * TURN_MS / each + TURN_MS + GUARDED_MS * vcpus;
        Duration::from_us((ms * 1000.0) as u64)
    };
    config.vms.iter().map(bound).collect()
}

/// The longest wait of `v`, over or not.
fn longest_wait(host: &Host, v: Vcpu) -> Duration {
    let (stats, state) = (host.vcpu_stats(v), &host.state().vcpus[v.index()]);
    let waits = state.runnable() && !state.running;
    let pending = if waits { host.now().since(state.since) } else { Duration::ZERO };
    stats.wakeup_latency.max().max(stats.preemption_latency.max()).max(pending)
}

/// Nobody waits for longer than four of its turns, the turn under way, and the others that have
/// waited too long as well.
#[test]
fn nobody_waits_too_long() {
    random::for_seeds("small_first", "nobody_waits_too_long", 120, |seed| {
        let config = random_host(seed);
        let bounds = longest_waits(&config);
        let mut host = Host::new(&config, seed).map_err(|e| e.to_string())?;
        host.run_to(Time::ZERO + Duration::from_ms(2000));
        for (i, state) in host.state().vcpus.iter().enumerate() {
            let (wait, bound) = (longest_wait(&host, Vcpu(i as u16)), bounds[state.dom.index()]);
            if wait > bound {
                return Err(format!("vCPU {i} waited {wait}, more than {bound}\n{config:#?}"));
            }
        }
        Ok(())
    });
}

/// A storm of 20,000 short wake-ups per second beside a loop. What interrupts somebody pays: 1 per ms,
/// 16 in 13 ms at first, and 300 saved up; the ends of the loop's turns of 10 ms come on top. In the long run it is
/// nearly as many as are paid for, or the storm would wait for nothing.
#[test]
fn a_storm_interrupts_as_often_as_is_paid_for() {
    let io = server("io", us(50), us(1), Some(Distribution::Fixed(us(50))));
    let config = host(1, Costs::FREE, vec![io, cpu_loop("loop")]);
    for seed in 0..10 {
        let mut host = Host::new(&config, seed).expect("valid");
        for ms in [5, 10, 20, 50, 100, 1000, 5000] {
            host.run_to(Time::ZERO + Duration::from_ms(ms));
            let preempted: u64 = (0..2).map(|v| host.vcpu_stats(Vcpu(v)).preempted).sum();
            let (most, least) = (ms * 16 / 13 + 301 + ms / 10, ms * 9 / 10);
            assert!(preempted <= most, "seed {seed}: {preempted} in {ms} ms");
            assert!(preempted >= least, "seed {seed}: only {preempted} in {ms} ms");
        }
    }
}

/// Processor time of a VM's vCPUs in a run of 10 s, in pCPUs.
fn share(host: &Host, dom: Dom) -> f64 {
    let vcpus = host.state().doms[dom.index()].vcpus.iter();
    vcpus.map(|&v| host.vcpu_time(v).0.as_s_f64()).sum::<f64>()
        / host.now().since(Time::ZERO).as_s_f64()
}

/// Who is alone on a pCPU has all of it, whatever the weights of those elsewhere.
#[test]
fn alone_on_a_pcpu_is_all_of_it() {
    let pinned =
        |name, p, weight| VmConfig { hard: CpuSet::only(Pcpu(p)), weight, ..cpu_loop(name) };
    let vms = vec![pinned("light", 0, 1), pinned("heavy", 1, 65535), pinned("other", 1, 65535)];
    let mut host = Host::new(&host(2, Costs::FREE, vms), 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(10));
    assert_eq!(host.vcpu_time(Vcpu(0)).0, Duration::from_s(10));
    let others = [share(&host, Dom(1)), share(&host, Dom(2))];
    // Turn and turn about: they differ by one at most, of 1,000.
    assert!(others.iter().all(|share| (share - 0.5).abs() <= 0.001), "{others:?}");
}

/// Runs for 10 s; the longest time for which nobody ran.
fn longest_all_off(host: &mut Host) -> Duration {
    let end = Time::ZERO + Duration::from_s(10);
    let (mut off, mut longest) = (None, Duration::ZERO);
    while host.step(end) {
        let now = host.now();
        if host.state().vcpus.iter().any(|state| state.running) {
            off = None;
        } else {
            longest = longest.max(now.since(*off.get_or_insert(now)));
        }
    }
    longest
}

/// Four loops capped at 200 % on four pCPUs have two of them; and no quota stops all of them at
/// once for longer than the cap's period of 10 ms.
#[test]
fn a_cap_is_spread_over_time() {
    let vm = VmConfig { vcpus: 4, cap_percent: 200, ..cpu_loop("capped") };
    let mut host = Host::new(&host(4, COSTS, vec![vm]), 1).expect("valid");
    let longest = longest_all_off(&mut host);
    let share = share(&host, Dom(0));
    assert!((share / 2.0 - 1.0).abs() <= 0.01, "{share} under 200 %");
    assert!(longest <= Duration::from_ms(10), "all four off for {longest}");
}

/// Capped loops on an idle host get their work done: stretches under a cap are longer than
/// the switch and the cold cache that each of them costs.
#[test]
fn capped_loops_get_their_work_done() {
    let costs = Costs { context_switch: us(5), cold_cache: us(11), ..COSTS };
    let capped = |cap_percent, name| VmConfig { cap_percent, ..cpu_loop(name) };
    let vms = vec![capped(25, "quarter"), capped(50, "half")];
    let mut host = Host::new(&host(2, costs, vms), 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(10));
    for v in [Vcpu(0), Vcpu(1)] {
        let (cpu, work) = host.vcpu_time(v);
        assert!(work.as_s_f64() >= 0.9 * cpu.as_s_f64(), "{v:?}: {work} of work in {cpu}");
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

/// A host of a KVM host: a group for it, one for each of its vCPUs in that.
fn kvm(config: &mut Config, name: &str, vcpus: u16, vm: Option<Limit>, vcpu: Option<Limit>) {
    let own = Cgroup(config.cgroups.len() as u16);
    config.cgroups.push(CgroupConfig { limit: vm, ..CgroupConfig::new(name, None) });
    let mut threads = Vec::new();
    for i in 0..vcpus {
        let cgroup = Some(Cgroup(config.cgroups.len() as u16));
        let name = format!("{name}/vcpu{i}");
        config.cgroups.push(CgroupConfig { limit: vcpu, ..CgroupConfig::new(&name, Some(own)) });
        threads.push(Thread { cgroup, ..Thread::default() });
    }
    config.vms.push(VmConfig { vcpus, threads, ..cpu_loop(name) });
}

fn limit(quota_ms: u64, period_ms: u64) -> Option<Limit> {
    Some(Limit { quota: ms(quota_ms), period: ms(period_ms), burst: Duration::ZERO })
}

/// The host of Peloquin's measurements (libvir-list, June 2011): 2, 2, 4, 8 and 16 vCPUs on 16
/// pCPUs, half of one for each, which is all there is. A fluid model gives each its half and
/// leaves nothing idle.
#[test]
fn half_a_pcpu_for_each_vcpu_is_all_of_the_host() {
    let mut config = host(16, COSTS, Vec::new());
    for (i, vcpus) in [2, 2, 4, 8, 16].into_iter().enumerate() {
        kvm(&mut config, &format!("vm{i}"), vcpus, None, limit(250, 500));
    }
    let mut host = Host::new(&config, 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(20));
    for v in 0..32 {
        let share = host.vcpu_time(Vcpu(v)).0.as_s_f64() / 20.0;
        assert!((share / 0.5 - 1.0).abs() <= 0.01, "vCPU {v} has {share} of a pCPU");
    }
}

/// No vCPU with a limit has more than a quota's bucket and what its rate adds, in any window; and
/// on a host with room it has that.
#[test]
fn a_vcpu_has_its_quota_in_each_period() {
    for (quota, period) in [(2, 10), (5, 20), (30, 100), (125, 250), (400, 500)] {
        let mut config = host(2, COSTS, Vec::new());
        kvm(&mut config, "vm", 2, None, limit(quota, period));
        let mut host = Host::new(&config, 1).expect("valid");
        let mut times = vec![Duration::ZERO];
        for n in 1..=40 {
            host.run_to(Time::ZERO + ms(period * n));
            times.push(host.vcpu_time(Vcpu(0)).0);
        }
        // Two quotas of 10 ms, if that is more.
        let bucket = ms(quota).max(ms(20).mul_div(quota, period));
        for (n, first) in times.iter().enumerate() {
            for (m, last) in times.iter().enumerate().skip(n) {
                let most = bucket + ms(quota) * (m - n) as u64;
                assert!(
                    *last - *first <= most,
                    "{quota}/{period}: {} in {}",
                    *last - *first,
                    m - n
                );
            }
        }
        let share = times[40].as_s_f64() / ms(period * 40).as_s_f64() * period as f64;
        assert!((share / quota as f64 - 1.0).abs() <= 0.01, "{quota}/{period}: {share}");
        let stats = host.cgroup_stats(Cgroup(1)).expect("a limit");
        assert_eq!((stats.periods, host.cgroup_stats(Cgroup(0))), (40, None));
        assert!(stats.longest_pause < ms(period - quota).max(ms(10)), "{stats:?}");
    }
}

/// Eight loops and a host's quota of two pCPUs, on eight: no vCPU waits for long, where a quota
/// for a period would stop all eight for three quarters of it.
#[test]
fn a_quota_does_not_freeze_a_machine() {
    let mut config = host(8, COSTS, Vec::new());
    kvm(&mut config, "vm", 8, limit(200, 100), None);
    let mut host = Host::new(&config, 1).expect("valid");
    let longest = longest_all_off(&mut host);
    let share = share(&host, Dom(0));
    assert!((share / 2.0 - 1.0).abs() <= 0.02, "{share} of two");
    assert!(longest <= ms(10), "all off for {longest}");
    // Turns of a quota of 10 ms, one each, and one more for who comes last.
    let stats = host.cgroup_stats(Cgroup(0)).expect("a limit");
    assert!(stats.longest_pause <= ms(30), "{stats:?}");
}

/// What cannot be limited by the rule is refused, not ignored.
#[test]
fn a_limit_on_some_of_a_machine_is_refused() {
    let mut config = host(4, COSTS, Vec::new());
    kvm(&mut config, "a", 2, None, None);
    kvm(&mut config, "b", 2, None, None);
    config.cgroups[0].limit = limit(10, 10);
    assert!(config.host_state().is_ok());
    // Both hosts in one group.
    config.cgroups[3].parent = Some(Cgroup(0));
    let error = config.host_state().expect_err("two hosts in one");
    assert!(error.to_string().starts_with("cgroup `a`: small-first limits"), "{error}");
    config.cgroups[0].limit = None;
    config.cgroups[0].shares = 1;
    let error = config.host_state().expect_err("too few shares");
    assert!(error.to_string().starts_with("cgroup `a`: 1 shares; the kernel"), "{error}");
}

/// Four loops beside four: none of them is small for ever although their VM is entitled to more
/// than one uses, so that all four get the same, and switches are a turn's, not a grant's.
#[test]
fn loops_share_what_their_vm_has() {
    let loops = |name, weight| VmConfig { vcpus: 4, weight, ..cpu_loop(name) };
    let config = host(4, COSTS, vec![loops("light", 256), loops("heavy", 1024)]);
    let mut host = Host::new(&config, 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(10));
    for v in 0..4 {
        let share = host.vcpu_time(Vcpu(v)).0.as_s_f64() / 10.0;
        assert!((share / 0.2 - 1.0).abs() <= 0.05, "loop {v} of four has {share}");
    }
    let switches: u64 = (0..4).map(|p| host.pcpu_stats(Pcpu(p)).switches).sum();
    // One for each turn of 10 ms on four pCPUs, and what the start costs.
    assert!(switches <= 4 * 1000 + 400, "{switches} switches");
}

/// The shares of a host's group are its weight: 1:4, whoever has more vCPUs.
#[test]
fn shares_of_groups_are_weights() {
    let mut config = host(4, COSTS, Vec::new());
    kvm(&mut config, "light", 8, None, None);
    kvm(&mut config, "heavy", 4, None, None);
    config.cgroups[9].shares = 4096;
    let mut host = Host::new(&config, 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(60));
    let shares = [share(&host, Dom(0)), share(&host, Dom(1))];
    assert!((shares[1] / shares[0] / 4.0 - 1.0).abs() <= 0.02, "{shares:?}");
}

/// A thread of the fair class that is alone there never waits, whatever VMs do, and they get what it leaves: on one pCPU a server of
/// 2 ms each 10 ms on average beside a loop and a small server.
#[test]
fn the_fair_class_runs_before_vms() {
    let daemon = VmConfig { fair_class: true, ..server("daemon", us(10_000), us(2_000), None) };
    let small = server("small", us(5_000), us(100), None);
    let config = host(1, Costs::FREE, vec![daemon, cpu_loop("loop"), small]);
    let mut host = Host::new(&config, 3).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(10));
    let daemon = host.vcpu_stats(Vcpu(0));
    assert!(daemon.wakeup_latency.n() > 500, "{}", daemon.wakeup_latency.n());
    assert_eq!(daemon.wakeup_latency.max(), Duration::ZERO, "it waits for no VM");
    assert_eq!(daemon.preemption_latency.n(), 0, "no VM interrupts it");
    let small = host.vcpu_stats(Vcpu(2)).wakeup_latency.quantile(0.99);
    assert!(small >= us(1_500) && small < us(8_000), "it waits for the daemon, 2 ms: {small}");
    let [daemon, hog, small] = [0, 1, 2].map(|dom| share(&host, Dom(dom)));
    assert!((daemon - 0.2).abs() < 0.03 && (small - 0.02).abs() < 0.005, "{daemon} {small}");
    assert!((hog + daemon + small - 1.0).abs() < 1e-6, "no pCPU idles beside a loop: {hog}");
}

/// With several pCPUs and threads of the fair class, books are right after each event, and no VM runs where a thread of the
/// fair class waits that may run there.
#[test]
fn vms_never_run_while_the_fair_class_waits() {
    random::for_seeds("small_first", "vms_never_run_while_the_fair_class_waits", 60, |seed| {
        let mut config = random_host(seed);
        let mut rng = Rng::new(seed, "fair class");
        for vm in &mut config.vms {
            vm.fair_class = rng.below(3) == 0;
        }
        config.costs = Costs::FREE;
        let mut host = Host::new(&config, seed).map_err(|e| e.to_string())?;
        let mut last = Time::ZERO;
        for _ in 0..20_000 {
            let (waits, runs) = {
                let state = host.state();
                let fair = |v: Vcpu| state.doms[state.vcpus[v.index()].dom.index()].fair_class;
                let waits = (0..state.vcpus.len() as u16).map(Vcpu).find(|&v| {
                    let vcpu = &state.vcpus[v.index()];
                    fair(v) && vcpu.runnable() && !vcpu.running
                });
                (waits, state.current.iter().flatten().copied().find(|&v| !fair(v)))
            };
            let goes_on = host.step(Time::ZERO + Duration::from_s(1));
            host.check().map_err(|e| format!("{e}\n{config:#?}"))?;
            // All that happens at an instant has happened when the next one begins.
            if host.now() > last
                && let (Some(waits), Some(runs)) = (waits, runs)
            {
                return Err(format!("at {last} {waits:?} waits and {runs:?} runs\n{config:#?}"));
            }
            last = host.now();
            if !goes_on {
                break;
            }
        }
        Ok(())
    });
}
