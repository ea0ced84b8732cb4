//! What must hold for every scheduler, on random hosts.
//!
//! Each property runs over many seeds; a failure prints the seed and the command that
//! repeats it. `LOWTAIL_SEED=n` runs one seed only.

mod random;

use lowtail_engine::{Distribution, Duration, Rng, Time};
use lowtail_host::config::Pause;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version, RunqueueScope};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{
    Config, Costs, CpuSet, Dom, Host, Pcpu, SchedulerConfig, Topology, Vcpu, VmConfig, Workload,
};
use lowtail_testkit::netback::KERNEL_COSTS;
use random::{COSTS, random_vm, us};

/// All schedulers by name, or those whose name contains `LOWTAIL_SCHEDULER`.
fn all() -> Vec<(&'static str, SchedulerConfig)> {
    let wanted = std::env::var("LOWTAIL_SCHEDULER").unwrap_or_default();
    let credit = |v| SchedulerConfig::Credit(CreditConfig::new(v));
    let credit2 = |v| SchedulerConfig::Credit2(Credit2Config::new(v));
    let fair = |v| SchedulerConfig::Fair(FairConfig::new(v));
    let mut all = vec![
        ("credit 2007", credit(CreditVersion::Xen2007)),
        ("credit 4.8", credit(CreditVersion::Xen48)),
        ("credit today", credit(CreditVersion::Today)),
        ("credit mended", credit(CreditVersion::Mended)),
        ("credit2 4.8.1", credit2(Credit2Version::Xen481)),
        ("credit2 4.10", credit2(Credit2Version::Xen410)),
        ("credit2 4.21", credit2(Credit2Version::Xen421)),
        ("credit2 mended", credit2(Credit2Version::Mended)),
        ("fair 2.6.39", fair(FairVersion::Linux2639)),
        ("fair 4.18", fair(FairVersion::Linux418)),
        ("fair 5.4", fair(FairVersion::Linux54)),
        ("fair 6.1", fair(FairVersion::Linux61)),
        ("fair 6.6", fair(FairVersion::Linux66)),
        ("fair 6.12", fair(FairVersion::Linux612)),
        ("fair 6.18", fair(FairVersion::Linux618)),
        ("null", SchedulerConfig::Null),
        ("small-first", SchedulerConfig::SmallFirst(SmallFirstConfig::default())),
    ];
    all.retain(|(name, _)| name.contains(&wanted));
    all
}

/// Those that share pCPUs out; under `null` there is nothing to share.
fn sharing() -> impl Iterator<Item = (&'static str, SchedulerConfig)> {
    all().into_iter().filter(|(name, _)| *name != "null")
}

/// The same scheduler with another rate limit.
fn with_ratelimit(scheduler: &SchedulerConfig, ratelimit: Duration) -> SchedulerConfig {
    let mut scheduler = scheduler.clone();
    match &mut scheduler {
        SchedulerConfig::Credit(config) => config.ratelimit = ratelimit,
        SchedulerConfig::Credit2(config) => config.ratelimit = ratelimit,
        SchedulerConfig::Null | SchedulerConfig::SmallFirst(_) | SchedulerConfig::Fair(_) => {}
    }
    scheduler
}

fn host(pcpus: u16, scheduler: &SchedulerConfig, costs: Costs, vms: Vec<VmConfig>) -> Config {
    let scheduler = scheduler.clone();
    Config::new(pcpus, scheduler, costs, vms)
}

fn cpu_loop(name: &str) -> VmConfig {
    VmConfig::new(name, Workload::CpuLoop)
}

/// Runs `property` for each seed, and says how to repeat a failure.
fn for_seeds(test: &str, n: u64, property: impl Fn(u64) -> Result<(), String>) {
    random::for_seeds("schedulers", test, n, property);
}

/// A random host under `scheduler`.
fn random_host(seed: u64, scheduler: &SchedulerConfig) -> Config {
    let mut rng = Rng::new(seed, "random host");
    let sockets = 1 + rng.below(2) as u16;
    let pcpus = sockets * (1 + rng.below(3) as u16);
    let limits = [us(0), us(100), us(1000), us(5000)];
    let scheduler = with_ratelimit(scheduler, limits[rng.below(4) as usize]);
    let capless = match &scheduler {
        SchedulerConfig::Credit2(config) => config.version == Credit2Version::Xen481,
        SchedulerConfig::Credit(_) | SchedulerConfig::SmallFirst(_) => false,
        SchedulerConfig::Fair(_) | SchedulerConfig::Null => true,
    };
    let vms = 1 + rng.below(3 * u64::from(pcpus));
    let vms = (0..vms).map(|i| random_vm(i, pcpus, !capless, &mut rng)).collect();
    let costs = if rng.below(2) == 0 { COSTS } else { KERNEL_COSTS };
    let mut config = host(pcpus, &scheduler, costs, vms);
    let rng = &mut Rng::new(seed, "topology");
    let threads = if (pcpus / sockets).is_multiple_of(2) { 1 + rng.below(2) as u16 } else { 1 };
    let even = Topology::even(pcpus, sockets, threads).expect("even");
    config.topology = Some(if rng.below(2) == 0 { even } else { shuffled(even, pcpus, rng) });
    let pauses = &mut Rng::new(seed, "pauses");
    for vm in &mut config.vms {
        vm.pauses = random_pauses(pauses);
    }
    config.records = 64;
    if config.scheduler == SchedulerConfig::Null {
        // A pCPU for each vCPU, and room for everybody.
        config.pcpus = config.vms.iter().map(|vm| vm.vcpus).sum();
        config.topology = None;
        config.vms.iter_mut().for_each(|vm| vm.hard = CpuSet::first_n(CpuSet::MAX_PCPUS));
    }
    config
}

/// The same with other numbers of pCPUs, and with a cache for each core.
fn shuffled(topology: Topology, pcpus: u16, rng: &mut Rng) -> Topology {
    let mut new: Vec<u16> = (0..pcpus).collect();
    for i in (1..new.len()).rev() {
        new.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let set = |set: &CpuSet| set.iter().map(|p| Pcpu(new[p.index()])).collect();
    let sets = |sets: &[CpuSet]| -> Vec<CpuSet> { sets.iter().map(set).collect() };
    Topology {
        cores: sets(&topology.cores),
        caches: sets(&topology.cores),
        sockets: sets(&topology.sockets),
        nodes: sets(&topology.nodes),
    }
}

/// None, or some, from microseconds to milliseconds.
fn random_pauses(rng: &mut Rng) -> Vec<Pause> {
    if rng.below(3) > 0 {
        return Vec::new();
    }
    let span = |rng: &mut Rng| us(10 << rng.below(10));
    let mut at = Duration::ZERO;
    let pause = |_| {
        let pause = Pause { at: at + span(rng), length: span(rng) };
        at = pause.at + pause.length;
        pause
    };
    (0..20).map(pause).collect()
}

/// Nobody runs on two pCPUs or outside its affinity, and the scheduler's own books are
/// right, after each single event.
#[test]
fn books_are_right_after_each_event() {
    for (name, scheduler) in all() {
        for_seeds("books_are_right_after_each_event", 60, |seed| {
            let config = random_host(seed, &scheduler);
            let mut host = Host::new(&config, seed).map_err(|e| e.to_string())?;
            for _ in 0..20_000 {
                if !host.step(Time::ZERO + Duration::from_s(1)) {
                    break;
                }
                host.check().map_err(|e| format!("{name}: {e}\n{config:#?}"))?;
            }
            Ok(())
        });
    }
}

/// The same seed gives the same history, to the last event and picosecond.
#[test]
fn same_seed_same_history() {
    for (name, scheduler) in all() {
        for_seeds("same_seed_same_history", 20, |seed| {
            let config = random_host(seed, &scheduler);
            let history = || {
                let mut host = Host::new(&config, seed).expect("a random host is valid");
                host.run_to(Time::ZERO + Duration::from_ms(200));
                let vcpus = 0..host.state().vcpus.len();
                let times: Vec<_> = vcpus.map(|v| host.vcpu_time(Vcpu(v as u16))).collect();
                let records: Vec<_> = host.recorder().iter().copied().collect();
                (host.events(), times, records)
            };
            let (first, second) = (history(), history());
            if first == second { Ok(()) } else { Err(format!("{name}: {first:?}\n{second:?}")) }
        });
    }
}

/// Longest time that a pCPU idled while a vCPU that may run there waited.
fn longest_idle_beside_waiting(config: &Config, seed: u64, end: Time) -> Duration {
    let mut host = Host::new(config, seed).expect("a random host is valid");
    let (mut since, mut longest) = (None, Duration::ZERO);
    while host.step(end) {
        let now = host.now();
        if host.idle_beside_waiting().is_some() {
            longest = longest.max(now.since(*since.get_or_insert(now)));
        } else {
            since = None;
        }
    }
    longest
}

/// Work conservation: on one pCPU, it never idles while somebody waits (beyond the
/// instant of the decision itself), whatever the rate limit and the workloads.
#[test]
fn one_pcpu_is_work_conserving() {
    for (name, scheduler) in sharing() {
        for_seeds("one_pcpu_is_work_conserving", 40, |seed| {
            let mut config = random_host(seed, &scheduler);
            (config.pcpus, config.topology) = (1, None);
            for vm in &mut config.vms {
                vm.hard = CpuSet::only(Pcpu(0));
                vm.cap_percent = 0;
            }
            let idle =
                longest_idle_beside_waiting(&config, seed, Time::ZERO + Duration::from_ms(300));
            if idle.is_zero() {
                Ok(())
            } else {
                Err(format!("{name}: idle for {idle}\n{config:#?}"))
            }
        });
    }
}

/// Processor time that each domain gets in a run of so many seconds, and that all pCPUs
/// spend busy, in pCPUs.
fn processor_time(config: &Config, seconds: u64) -> (Vec<f64>, f64) {
    let mut host = Host::new(config, 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(seconds));
    let doms = 0..host.state().doms.len();
    let of = |dom: usize| -> f64 {
        let vcpus = host.state().doms[dom].vcpus.iter();
        vcpus.map(|&v| host.vcpu_time(v).0.as_s_f64()).sum::<f64>() / seconds as f64
    };
    let busy = (0..config.pcpus).map(|p| host.pcpu_stats(Pcpu(p)).busy.as_s_f64()).sum::<f64>();
    (doms.map(of).collect(), busy / seconds as f64)
}

/// Fails if `ours` is off by more than `tolerance`, relatively.
fn assert_near(name: &str, what: &str, ours: f64, right: f64, tolerance: f64) {
    assert!((ours / right - 1.0).abs() <= tolerance, "{name}: {what} {ours}, should be {right}");
}

/// Shares of hungry single-vCPU domains on one pCPU, in the order of `weights`.
fn shares_on_one_pcpu(scheduler: &SchedulerConfig, weights: &[u16], seconds: u64) -> Vec<f64> {
    let vms = weights.iter().map(|&weight| VmConfig { weight, ..cpu_loop(&format!("w{weight}")) });
    let (shares, busy) = processor_time(&host(1, scheduler, COSTS, vms.collect()), seconds);
    assert_near("any", "busy", busy, 1.0, 0.001);
    shares
}

/// The largest relative error of a share against its weight.
fn unfairness(shares: &[f64], weights: &[u16]) -> f64 {
    let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
    let error = |(share, &weight): (&f64, &u16)| (share * total / f64::from(weight) - 1.0).abs();
    shares.iter().zip(weights).map(error).fold(0.0, f64::max)
}

/// Shares follow weights within 2 % over 10 s: two domains, for every scheduler.
#[test]
fn shares_follow_two_weights() {
    for (name, scheduler) in sharing() {
        let shares = shares_on_one_pcpu(&scheduler, &[256, 512], 10);
        let error = unfairness(&shares, &[256, 512]);
        assert!(error <= 0.02, "{name}: {shares:?} is {error} off");
    }
}

/// The same with four weights from 128 to 1024: credit2 keeps the 2 %. Credit does not:
///
/// * 4.8 and today are off by more over the first 10 s, because everybody starts with the
///   same credit, and the light ones live on it for the first accounting periods; the error
///   has gone after 300 s.
/// * 2007 stays off: a vCPU that has saved 300 credits while it waited is taken for
///   inactive, and loses them (`csched_acct`: "inactive" at `CSCHED_CREDITS_PER_TSLICE`).
///   The heavy vCPU earns 160 credits a period and waits for three others; it is hit.
#[test]
fn shares_follow_four_weights_except_under_credit() {
    let weights = [128, 256, 512, 1024];
    for (name, scheduler) in sharing() {
        let error =
            |seconds| unfairness(&shares_on_one_pcpu(&scheduler, &weights, seconds), &weights);
        let (short, long) = (error(10), error(300));
        match name {
            "credit 2007" => assert!(short > 0.02 && long > 0.02, "{name}: {short} {long}"),
            "credit 4.8" | "credit today" | "credit mended" => {
                assert!(short > 0.02 && long <= 0.02, "{name}: {short} {long}");
            }
            _ => assert!(short <= 0.02 && long <= 0.02, "{name}: {short} {long}"),
        }
    }
}

/// What a domain capped at `cap` percent gets beside a hungry neighbour of half its weight,
/// or alone.
fn capped_share(scheduler: &SchedulerConfig, cap: u16, neighbour: bool) -> f64 {
    let mut vms = vec![VmConfig { cap_percent: cap, ..cpu_loop("capped") }];
    if neighbour {
        vms.push(VmConfig { weight: 128, ..cpu_loop("free") });
    }
    processor_time(&host(1, scheduler, COSTS, vms), 10).0[0]
}

/// Caps hold within 1 % over 10 s, beside a hungry neighbour and on an idle host. Under
/// credit a capped vCPU is parked at accounting only, every 30 ms: over 10 s it can be one
/// such period out, 0.3 % of a pCPU. At a cap of 10 % that is 3 % of the cap, and credit is
/// indeed more than 1 % off there.
#[test]
fn caps_hold() {
    // Linux limits control groups, see `fair.rs`.
    for (name, scheduler) in sharing().filter(|(name, _)| !name.starts_with("fair ")) {
        // 4.8.1's credit2 has no caps; that it refuses them is tested below.
        let old = name == "credit2 4.8.1";
        for cap in [10u16, 25, 40, 60].into_iter().filter(|_| !old) {
            for neighbour in [false, true] {
                let share = capped_share(&scheduler, cap, neighbour);
                let right = f64::from(cap) / 100.0;
                let error = share - right;
                // One period, and the schedulers' own passes.
                let slack = if name.starts_with("credit ") { 0.0031 } else { 0.01 * right };
                assert!(error.abs() <= slack, "{name}: {share} under {cap} %, beside {neighbour}");
            }
        }
        if name.starts_with("credit ") {
            let error = (capped_share(&scheduler, 10, false) - 0.1).abs();
            assert!(error > 0.001, "{name} has become exact: tell the reader of this test");
        }
    }
}

#[test]
fn credit2_481_refuses_caps() {
    let capped = VmConfig { cap_percent: 50, ..cpu_loop("capped") };
    let scheduler = SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen481));
    let error = Host::new(&host(1, &scheduler, COSTS, vec![capped]), 1).unwrap_err();
    assert!(error.to_string().contains("4.10"), "{error}");
}

/// No lost wake-up: a sleeper among random neighbours goes on waking to the end; the
/// longest it may stay away is bounded by what the others may take in turn.
#[test]
fn no_wakeup_is_lost() {
    for (name, scheduler) in all() {
        for_seeds("no_wakeup_is_lost", 12, |seed| {
            let mut config = random_host(seed, &scheduler);
            let sleeper = Workload::TimerSleeper(TimerSleeperConfig {
                work: us(10),
                late_limit: us(1000),
                ..TimerSleeperConfig::new(Distribution::Fixed(us(500)), u64::MAX)
            });
            config.vms.push(VmConfig::new("sleeper", sleeper));
            config.pcpus += u16::from(config.scheduler == SchedulerConfig::Null);
            let v = Vcpu(config.vms.iter().map(|vm| vm.vcpus).sum::<u16>() - 1);
            let vcpus = u64::from(v.0) + 1;
            let mut host = Host::new(&config, seed).map_err(|e| e.to_string())?;
            let (mut at, mut last) = (Time::ZERO, 0);
            // Every vCPU may have a slice of 30 ms; weights reach 16:1, and the light wait
            // accordingly.
            let patience = Duration::from_ms(30) * vcpus.min(8) * 4;
            for _ in 0..3 {
                at += patience;
                host.run_to(at);
                let runs = host.vcpu_stats(v).runs;
                if runs == last {
                    return Err(format!(
                        "{name}: no wake-up for {patience} before {at:?}\n{config:#?}"
                    ));
                }
                last = runs;
            }
            Ok(())
        });
    }
}

/// Four equal loops on two pCPUs get half a pCPU each where they share one run queue or
/// are balanced by stealing, within 5 % over 30 s; and both pCPUs are always busy.
#[test]
fn equal_loops_share_two_pcpus() {
    for (name, scheduler) in sharing() {
        let vms: Vec<_> = (0..4).map(|i| cpu_loop(&format!("loop{i}"))).collect();
        let mut scheduler = scheduler;
        if let SchedulerConfig::Credit2(config) = &mut scheduler {
            config.runqueue = RunqueueScope::All;
        }
        let (shares, busy) = processor_time(&host(2, &scheduler, COSTS, vms), 30);
        assert_near(name, "busy", busy, 2.0, 0.001);
        for share in shares {
            assert_near(name, "share", share, 0.5, 0.05);
        }
    }
}

/// With a run queue per pCPU, as 4.8 has it by default, two loops that start on one pCPU
/// are spread by load balancing: after a while both pCPUs are busy.
#[test]
fn credit2_balances_between_run_queues() {
    for version in [Credit2Version::Xen481, Credit2Version::Xen410, Credit2Version::Xen421] {
        let mut config = Credit2Config::new(version);
        config.runqueue = RunqueueScope::Core;
        let scheduler = SchedulerConfig::Credit2(config);
        let vms = (0..6).map(|i| cpu_loop(&format!("loop{i}"))).collect();
        let (shares, busy) = processor_time(&host(3, &scheduler, COSTS, vms), 10);
        assert_near("credit2", "busy", busy, 3.0, 0.001);
        for share in shares {
            assert_near("credit2", "share", share, 0.5, 0.05);
        }
    }
}

/// Doms are numbered as given, for the reader of the other tests.
#[test]
fn domains_keep_their_order() {
    let scheduler = &SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen421));
    let vms = vec![cpu_loop("a"), VmConfig { weight: 512, ..cpu_loop("b") }];
    let state = host(1, scheduler, COSTS, vms).host_state().expect("valid");
    assert_eq!((state.doms[1].weight, state.vcpus[1].dom), (512, Dom(1)));
}

/// A random host with several pCPUs, one run queue, nobody pinned, capped or paused.
fn open_host(seed: u64, scheduler: &SchedulerConfig) -> Config {
    let mut config = random_host(seed, scheduler);
    config.pcpus = 2 + (seed % 3) as u16;
    config.topology = None;
    if let SchedulerConfig::Credit2(config) = &mut config.scheduler {
        config.runqueue = RunqueueScope::All;
    }
    for vm in &mut config.vms {
        vm.hard = CpuSet::first_n(CpuSet::MAX_PCPUS);
        vm.soft = vm.hard;
        vm.cap_percent = 0;
        vm.pauses.clear();
    }
    config
}

/// Longer than it takes a pCPU to fetch a waiting vCPU with the costs here: a tickle, a pass,
/// a switch, and the round through a pCPU that was about to block.
const FETCHED: Duration = Duration::from_us(50);

/// The longest that a pCPU idles beside a waiting vCPU on the open host of this seed.
fn idle_on_open_host(seed: u64, scheduler: &SchedulerConfig, limit: Option<Duration>) -> Duration {
    let mut config = open_host(seed, scheduler);
    if let Some(limit) = limit {
        config.scheduler = with_ratelimit(&config.scheduler, limit);
    }
    longest_idle_beside_waiting(&config, seed, Time::ZERO + Duration::from_ms(300))
}

/// Work conservation on several pCPUs: under small-first, and under credit2 without a rate limit
/// (see below for why without), none idles for longer than it takes to fetch the waiting vCPU.
#[test]
fn work_is_conserved_on_several_pcpus_except_under_credit() {
    let others = |name: &str| !name.starts_with("credit ") && !name.starts_with("fair ");
    for (name, scheduler) in sharing().filter(|(name, _)| others(name)) {
        for_seeds("work_is_conserved_on_several_pcpus_except_under_credit", 80, |seed| {
            match idle_on_open_host(seed, &scheduler, Some(us(0))) {
                idle if idle <= FETCHED => Ok(()),
                idle => Err(format!("{name}: idle for {idle}")),
            }
        });
    }
}

/// Linux fetches a waiting thread at the latest when the tick of a busy pCPU that has more than it
/// can do brings work to idle ones: those that have gone idle before there was any do not look
/// by themselves. Each has it brought every 4 ms on these hosts of up to 4 pCPUs, every 8 ms when
/// there was nothing to do (`get_sd_balance_interval`), at a tick, which are 4 ms apart. 2.6.39
/// has no such help, see `FairConfig`.
#[test]
fn linux_conserves_work_but_for_some_ticks() {
    let bound = us(8_000 + 4_000) + FETCHED;
    for (name, scheduler) in sharing().filter(|(name, _)| name.starts_with("fair ")) {
        let worst = (0..80).map(|seed| idle_on_open_host(seed, &scheduler, None)).max();
        let worst = worst.unwrap_or_default();
        match name {
            "fair 2.6.39" => assert!(worst > bound, "{name} has become work conserving: {worst}"),
            _ => assert!((FETCHED..bound).contains(&worst), "{name}: {worst}"),
        }
    }
}

/// Credit does not conserve work, and this shows it for each version.
///
/// * 2007 and 4.8: two vCPUs wake on the same idle pCPU before it has left its idle state. For
///   the second one, too, that pCPU is tickled, as it looks idle, and no other
///   (`__runq_tickle`); another idle pCPU finds the second one when it happens to look.
///   Commit 47d5292995 counts a tickled idler as busy.
/// * Today: an idle pCPU that has looked for work within the last millisecond does not look
///   again (`load-balance-ratelimit`, commit 58feb9e0ac).
#[test]
fn credit_lets_pcpus_idle_beside_waiting_vcpus() {
    for (name, scheduler) in sharing().filter(|(name, _)| name.starts_with("credit ")) {
        let idles = (0..400).map(|seed| idle_on_open_host(seed, &scheduler, None));
        let worst = idles.max().unwrap_or_default();
        assert!(worst > FETCHED, "{name} has become work conserving: {worst}");
    }
}

/// A rate limit takes work conservation from credit2. A vCPU remembers which pCPU was tickled
/// for it (`tickled_cpu`) until it runs. A pCPU under the rate limit that is tickled refuses;
/// each vCPU that it has refused is left to it by all others whenever it has just been
/// tickled once more (`runq_candidate`, "deferred_to_tickled_cpu"), and another pCPU that looks
/// for work at such a moment passes them over and goes idle.
///
/// Shown for 4.8.1, which tickles pCPUs under the rate limit. Since 4.10 that happens only
/// in the last 50 us of the limit, and rarely.
#[test]
fn a_rate_limit_lets_credit2_idle_beside_waiting_vcpus() {
    let scheduler = SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen481));
    let longest = |seed| idle_on_open_host(seed, &scheduler, Some(us(5000)));
    let worst = (0..80).map(longest).max().unwrap_or_default();
    assert!(worst > FETCHED, "has become work conserving: {worst}");
}

/// Of 4 s on one pCPU, a VM that is paused for one has half of three, and its neighbour the rest: nobody else's time is lost.
#[test]
fn what_a_paused_vm_leaves_others_have() {
    for (name, scheduler) in sharing() {
        let (mut paused, other) = (cpu_loop("paused"), cpu_loop("other"));
        let (at, length) = (Duration::from_s(1), Duration::from_s(1));
        paused.pauses = vec![Pause { at, length }];
        let config = host(1, &scheduler, COSTS, vec![paused, other]);
        let mut host = Host::new(&config, 1).expect("a host");
        host.run_to(Time::ZERO + Duration::from_s(4));
        let used = [0, 1].map(|v| host.vcpu_time(Vcpu(v)).0.as_s_f64());
        // A turn of credit's is 30 ms; who comes back may be owed some.
        assert_near(name, "time of the one that was paused", used[0], 1.5, 0.1);
        assert_near(name, "time of the other", used[1], 2.5, 0.1);
    }
}
