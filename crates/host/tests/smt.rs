//! Two hardware threads of a core: what each does while the other one runs somebody, and who goes where.

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{
    Config, Costs, CpuSet, Host, Pcpu, SchedulerConfig, Topology, Vcpu, VmConfig, Workload,
};

/// Speed beside a busy sibling.
const PERCENT: u16 = 61;
const SPEED: f64 = PERCENT as f64 / 100.0;

fn host(pcpus: u16, scheduler: SchedulerConfig, vms: Vec<VmConfig>) -> Config {
    Config {
        topology: Some(Topology::even(pcpus, 1, 2).expect("pairs")),
        sibling_speed_percent: PERCENT,
        ..Config::new(pcpus, scheduler, Costs::FREE, vms)
    }
}

fn small_first() -> SchedulerConfig {
    SchedulerConfig::SmallFirst(SmallFirstConfig::default())
}

fn cpu_loop(name: &str, pcpu: Option<u16>) -> VmConfig {
    let hard = match pcpu {
        Some(p) => CpuSet::only(Pcpu(p)),
        None => CpuSet::first_n(CpuSet::MAX_PCPUS),
    };
    VmConfig { hard, ..VmConfig::new(name, Workload::CpuLoop) }
}

/// CPU time and work of each vCPU in so long.
fn run(config: &Config, span: Duration) -> Vec<(f64, f64)> {
    let mut host = Host::new(config, 1).expect("valid");
    host.run_to(Time::ZERO + span);
    let vcpus = 0..host.state().vcpus.len();
    let time = |v| host.vcpu_time(Vcpu(v as u16));
    vcpus.map(time).map(|(cpu, work)| (cpu.as_s_f64(), work.as_s_f64())).collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn a_loop_alone_has_all_of_its_core() {
    let config = host(2, small_first(), vec![cpu_loop("a", Some(0))]);
    let (cpu, work) = run(&config, Duration::from_s(1))[0];
    assert!(near(cpu, 1.0) && near(work, 1.0), "{cpu} {work}");
}

#[test]
fn two_loops_of_a_core_have_the_speed_of_siblings() {
    let config = host(2, small_first(), vec![cpu_loop("a", Some(0)), cpu_loop("b", Some(1))]);
    for (cpu, work) in run(&config, Duration::from_s(1)) {
        assert!(near(cpu, 1.0) && near(work, SPEED), "{cpu} {work}");
    }
    // Each on a core of its own.
    let config = host(4, small_first(), vec![cpu_loop("a", Some(0)), cpu_loop("b", Some(2))]);
    for (cpu, work) in run(&config, Duration::from_s(1)) {
        assert!(near(cpu, 1.0) && near(work, 1.0), "{cpu} {work}");
    }
}

/// The sibling of a loop works now and then: the loop has its full speed for the rest of the time, and each burst of the other takes as much
/// longer as it is slower. To the picosecond of each change: nothing is lost or done twice.
#[test]
fn work_is_speed_times_time() {
    for (burst_us, sleep_us) in [(3_000, 7_000), (100, 33), (1, 2)] {
        let (burst, sleep) = (Duration::from_us(burst_us), Duration::from_us(sleep_us));
        let hog = DutyHogConfig {
            burst: Distribution::Fixed(burst),
            sleep: Distribution::Fixed(sleep),
            start: Some(Distribution::ZERO),
        };
        let hog = VmConfig {
            hard: CpuSet::only(Pcpu(1)),
            ..VmConfig::new("hog", Workload::DutyHog(hog))
        };
        let config = host(2, small_first(), vec![cpu_loop("a", Some(0)), hog]);
        let times = run(&config, Duration::from_s(1));
        let ((_, work), (hog_cpu, hog_work)) = (times[0], times[1]);
        assert!(near(hog_work, SPEED * hog_cpu), "{hog_cpu} {hog_work}");
        assert!(near(work, 1.0 - (1.0 - SPEED) * hog_cpu), "{work} beside {hog_cpu}");
        // A burst takes so long, and then it sleeps.
        let takes = burst_us as f64 / SPEED;
        let share = takes / (takes + sleep_us as f64);
        assert!((hog_cpu / share - 1.0).abs() < 0.01, "{hog_cpu}, not {share}");
    }
}

/// Who wakes goes to a core of its own as long as there is one.
#[test]
fn idle_cores_come_first() {
    let fair = |version| SchedulerConfig::Fair(FairConfig::new(version));
    let credit2 = |version| SchedulerConfig::Credit2(Credit2Config::new(version));
    for scheduler in [
        small_first(),
        credit2(Credit2Version::Xen481),
        credit2(Credit2Version::Xen421),
        fair(FairVersion::Linux61),
        fair(FairVersion::Linux618),
    ] {
        let loops = ["a", "b", "c", "d"].map(|name| cpu_loop(name, None));
        let config = host(8, scheduler, loops.to_vec());
        let times = run(&config, Duration::from_s(1));
        let works = times.iter().all(|(_, work)| near(*work, 1.0));
        assert!(works, "{:?}: {times:?}", config.scheduler);
    }
}

/// Also for one that may run on one thread of each core only.
#[test]
fn a_core_is_idle_whoever_may_run_there() {
    let a = cpu_loop("a", Some(0));
    let b = VmConfig { hard: [Pcpu(1), Pcpu(2)].into_iter().collect(), ..cpu_loop("b", None) };
    let credit2 = SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen421));
    for scheduler in [small_first(), credit2] {
        let config = host(4, scheduler, vec![a.clone(), b.clone()]);
        let times = run(&config, Duration::from_s(1));
        let works = times.iter().all(|(_, work)| near(*work, 1.0));
        assert!(works, "{:?}: {times:?}", config.scheduler);
    }
}

#[test]
fn what_makes_no_cores_is_refused() {
    let error = Topology::even(3, 1, 2).expect_err("three threads").to_string();
    assert!(error.contains("2 threads per core and 3 pCPUs per socket"), "{error}");
    let config = Config { sibling_speed_percent: 0, ..host(2, small_first(), Vec::new()) };
    let error = Host::new(&config, 1).expect_err("no speed").to_string();
    assert!(error.contains("speed of 0 %"), "{error}");
}
