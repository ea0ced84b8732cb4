//! What hostile guests do, on a host where nothing is in their way, against sums done by hand.

use lowtail_engine::{Duration, Time};
use lowtail_host::guest::boost_saver::BoostSaverConfig;
use lowtail_host::guest::bucket_surfer::BucketSurferConfig;
use lowtail_host::guest::edge_burner::EdgeBurnerConfig;
use lowtail_host::guest::splitter::SplitterConfig;
use lowtail_host::guest::tick_dodger::{GiveUp, TickDodgerConfig};
use lowtail_host::guest::wake_storm::WakeStormConfig;
use lowtail_host::record::{Record, What};
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::{Config, Costs, Host, Pcpu, SchedulerConfig, Vcpu, VmConfig, Workload};

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn vm(name: &str, vcpus: u16, workload: Workload) -> VmConfig {
    VmConfig { vcpus, ..VmConfig::new(name, workload) }
}

/// A host with a pCPU for each vCPU, or with one for all.
fn host(scheduler: SchedulerConfig, vms: Vec<VmConfig>) -> Config {
    let vcpus = vms.iter().map(|vm| vm.vcpus).sum();
    let pcpus = if scheduler == SchedulerConfig::Null { vcpus } else { 1 };
    let costs = Costs::FREE;
    Config { records: 1 << 16, ..Config::new(pcpus, scheduler, costs, vms) }
}

/// The host after so many milliseconds.
fn run(config: &Config, span: Duration) -> Host {
    let mut host = Host::new(config, 1).expect("valid");
    host.run_to(Time::ZERO + span);
    host.check().expect("books are right");
    host
}

/// Runs `vms`, each vCPU with a pCPU to itself, for a second; the work of each vCPU.
fn undisturbed(vms: Vec<VmConfig>) -> Vec<Duration> {
    let host = run(&host(SchedulerConfig::Null, vms), ms(1000));
    (0..host.state().vcpus.len()).map(|v| host.vcpu_time(Vcpu(v as u16)).1).collect()
}

/// Whether `v` has a pCPU at `time`, by the recording.
fn runs_at(host: &Host, v: u16, time: Time) -> bool {
    let before = |record: &&Record| record.vcpu == Vcpu(v) && record.time <= time;
    let state = |record: &&Record| !matches!(record.what, What::Wake | What::Note(_));
    let last = host.recorder().iter().filter(before).rfind(state);
    last.is_some_and(|record| matches!(record.what, What::Run))
}

fn dodger(give_up: GiveUp) -> Workload {
    Workload::TickDodger(TickDodgerConfig { tick: ms(10), margin: us(500), after: us(50), give_up })
}

/// 50 us to 9.5 ms of each 10 ms, and never at a tick.
#[test]
fn a_tick_dodger_runs_between_ticks_only() {
    let config = host(SchedulerConfig::Null, vec![vm("a", 2, dodger(GiveUp::Sleep))]);
    let host = run(&config, ms(1000));
    for v in 0..2 {
        assert_eq!(host.vcpu_time(Vcpu(v)).1, us(9450) * 100);
        for tick in 1..100 {
            let time = Time::ZERO + ms(10) * tick;
            assert!(!runs_at(&host, v, time), "tick {tick}");
            assert!(runs_at(&host, v, time + us(60)), "after tick {tick}");
        }
    }
}

/// One yield before each of 100 ticks enters the scheduler, as does the start. With the pCPU
/// to itself nothing is given away by that.
#[test]
fn a_yielding_tick_dodger_yields_before_each_tick() {
    let config = host(SchedulerConfig::Null, vec![vm("a", 1, dodger(GiveUp::Yield))]);
    let host = run(&config, ms(1000));
    assert_eq!(host.vcpu_time(Vcpu(0)).1, ms(1000));
    assert_eq!(host.pcpu_stats(Pcpu(0)).schedules, 101);
}

/// Under 2007's credit the sleeping dodger is never charged: next to all is its own. Exact
/// charging (4.8) alone does not change that, see the scheduler's notes; what the loop gets
/// there is at least the margin before each tick.
#[test]
fn a_tick_dodger_robs_a_loop_under_credit_2007() {
    let credit = SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Xen2007));
    let vms = vec![vm("a", 1, dodger(GiveUp::Sleep)), vm("loop", 1, Workload::CpuLoop)];
    let host = run(&host(credit, vms), Duration::from_s(10));
    let share = host.vcpu_time(Vcpu(0)).0.as_s_f64() / 10.0;
    assert!((0.90..=0.95).contains(&share), "{share}");
}

/// 10 ms of sleep, 5 ms of work: 66 whole cycles make 990 ms, then 10 ms of sleep.
#[test]
fn a_boost_saver_sleeps_and_burns() {
    let saver = Workload::BoostSaver(BoostSaverConfig { save: ms(10), burn: ms(5) });
    assert_eq!(undisturbed(vec![vm("a", 2, saver)]), [ms(66 * 5); 2]);
}

/// A burst of 2 ms each 8 ms.
#[test]
fn a_bucket_surfer_takes_its_share() {
    let surfer =
        |share_percent| Workload::BucketSurfer(BucketSurferConfig { burst: ms(2), share_percent });
    assert_eq!(undisturbed(vec![vm("a", 2, surfer(25))]), [ms(250); 2]);
    assert_eq!(undisturbed(vec![vm("a", 1, surfer(100))]), [ms(1000)]);
}

/// Slowed to half its speed it still begins each burst on time: two surfers of 40 % on one
/// pCPU have 80 % together, where a guest that sleeps after its work would have less.
#[test]
fn a_bucket_surfer_makes_up_for_lost_time() {
    let credit = SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Xen48));
    let surfer = Workload::BucketSurfer(BucketSurferConfig { burst: ms(4), share_percent: 40 });
    let vms = vec![vm("a", 1, surfer.clone()), vm("b", 1, surfer)];
    let host = run(&host(credit, vms), ms(10_000));
    for v in 0..2 {
        let share = host.vcpu_time(Vcpu(v)).1.as_s_f64() / 10.0;
        assert!((share - 0.4).abs() < 0.001, "{share}");
    }
}

/// Five vCPUs share out one pCPU's worth of work in equal turns, and no two work at once.
#[test]
fn a_splitter_works_on_one_vcpu_at_a_time() {
    let splitter = Workload::Splitter(SplitterConfig { turn: us(500) });
    let config = host(SchedulerConfig::Null, vec![vm("a", 5, splitter.clone())]);
    let host = run(&config, ms(1000));
    for v in 0..5 {
        assert_eq!(host.vcpu_time(Vcpu(v)).1, ms(200));
    }
    for at in 0..1000 {
        let time = Time::ZERO + us(1000 * at + 250);
        assert_eq!((0..5).filter(|&v| runs_at(&host, v, time)).count(), 1, "{time}");
    }
    assert_eq!(undisturbed(vec![vm("a", 1, splitter)]), [ms(1000)]);
}

/// 1 ms ahead of each multiple of 30 ms to 2 ms behind it: 33 edges in a second, the last one
/// whole.
#[test]
fn an_edge_burner_works_across_edges() {
    let burner =
        Workload::EdgeBurner(EdgeBurnerConfig { period: ms(30), before: ms(1), after: ms(2) });
    assert_eq!(undisturbed(vec![vm("a", 2, burner)]), [ms(3 * 33); 2]);
}

fn storm(partner: &str, work: Duration) -> Workload {
    Workload::WakeStorm(WakeStormConfig { partner: partner.to_string(), work })
}

/// Each works while the other sleeps; both begin at once, and after that only one interrupt
/// is on its way. Four vCPUs, two pairs.
#[test]
fn a_wake_storm_goes_to_and_fro() {
    let vms = vec![vm("a", 2, storm("b", us(200))), vm("b", 2, storm("a", us(300)))];
    let host = run(&host(SchedulerConfig::Null, vms), ms(1000));
    // 0 to 200 us: both. 200 to 300: only b, whom a's interrupt found awake. Then a and b in
    // turns of 200 and 300 us: 1999 whole rounds to 999.8 ms, and a's 200 us.
    for v in 0..4 {
        let work = if v < 2 { us(200) * 2001 } else { us(300) * 2000 };
        assert_eq!(host.vcpu_time(Vcpu(v)).1, work, "vCPU {v}");
    }
}

/// On one pCPU the storm never stops either: no interrupt gets lost for good.
#[test]
fn a_wake_storm_never_dies_down() {
    for version in [CreditVersion::Xen2007, CreditVersion::Xen48, CreditVersion::Today] {
        let credit = SchedulerConfig::Credit(CreditConfig::new(version));
        let vms = vec![vm("a", 3, storm("b", us(70))), vm("b", 3, storm("a", us(30)))];
        let host = run(&host(credit, vms), ms(1000));
        let all: f64 = (0..6).map(|v| host.vcpu_time(Vcpu(v)).1.as_s_f64()).sum();
        assert!((all - 1.0).abs() < 1e-9, "{version:?}: {all}");
    }
}

#[test]
fn partners_have_to_play() {
    let error = |vms: Vec<VmConfig>| {
        let error = Host::new(&host(SchedulerConfig::Null, vms), 1).expect_err("no partner");
        error.to_string()
    };
    let a = |vcpus| vm("a", vcpus, storm("b", us(10)));
    let b = vm("b", 1, storm("a", us(10)));
    assert_eq!(error(vec![a(1)]), "VM `a`: its partner `b` is not on this host");
    assert_eq!(error(vec![vm("b", 1, storm("b", us(10)))]), "VM `b`: its partner `b` is itself");
    let idle = error(vec![a(1), vm("b", 1, Workload::CpuLoop)]);
    assert_eq!(idle, "VM `a`: its partner `b` is no wake-storm and would not answer");
    let fewer = error(vec![a(2), b.clone()]);
    assert_eq!(fewer, "VM `a`: its partner `b` has 1 vCPUs, not 2: each wakes its counterpart");
    assert!(Host::new(&host(SchedulerConfig::Null, vec![a(1), b]), 1).is_ok());
}
