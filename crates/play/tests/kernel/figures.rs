//! What the kernel gives is what the groups say.

use super::*;
use crate::tries::tries;
use lowtail_engine::Distribution;
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::{CpuSet, Pcpu};

fn near(is: f64, wanted: f64, percent: f64, what: &str) {
    assert!((is - wanted).abs() <= wanted * percent / 100.0, "{what}: {is}, wanted {wanted}");
}

/// `shares` are what its name says: 1, 2 and 4 sevenths of a CPU on which all three compute.
#[test]
fn shares_divide_a_cpu() {
    let Some(_host) = host() else { return };
    tries(|| {
        let state = tempfile::tempdir().expect("a directory");
        let cgroups = vec![shares("a", 1024), shares("b", 2048), shares("c", 4096)];
        let mut vms: Vec<VmConfig> =
            (0..3).map(|i| hogs(["a", "b", "c"][i], 1, i as u16)).collect();
        vms.iter_mut().for_each(|vm| vm.hard = CpuSet::only(Pcpu(0)));
        let measured = measure(&config(vms, cgroups), ms(2_000), state.path());
        let got: Vec<f64> = measured.vms.iter().map(|vm| vm.share_percent(measured.wall)).collect();
        // Of what the three have got: a hypervisor below may have taken some.
        let all: f64 = got.iter().sum();
        assert!(all > 60.0, "the CPU was not ours: {got:?}");
        for (got, part) in got.iter().zip([1.0, 2.0, 4.0]) {
            near(got / all, part / 7.0, 3.0, "share");
        }
        assert!(measured.groups.iter().all(|group| group.stats.is_none()), "no limits, no figures");
        assert!(groups().is_empty(), "{:?}", groups());
    });
}

/// Two threads may run for 10 ms in each 20 ms: half a CPU, throttled in every period. The
/// machine beside them in a group of its own, one above it with 30 ms, is not, and has what its
/// twin has that is in no group: 1 ms in each 10 ms, and what the kernel charges to a thread for
/// its wake-ups: some tens of us each, by the machine.
#[test]
fn a_quota_is_run_time_per_period() {
    let Some(_host) = host() else { return };
    tries(|| {
        let state = tempfile::tempdir().expect("a directory");
        let cgroups = vec![
            limited("outer", None, ms(30), ms(20)),
            limited("outer/tight", Some(0), ms(10), ms(20)),
            limited("outer/wide", Some(0), ms(20), ms(20)),
        ];
        let burst = Distribution::Fixed(ms(1));
        let duty = Workload::DutyHog(DutyHogConfig::busy(burst, 10));
        let light = VmConfig { workload: duty.clone(), ..hogs("light", 1, 2) };
        let twin = VmConfig::new("twin", duty);
        let config = config(vec![hogs("tight", 2, 1), light, twin], cgroups);
        let measured = measure(&config, ms(2_000), state.path());
        let share = |vm: usize| measured.vms[vm].share_percent(measured.wall);
        near(share(0), 50.0, 3.0, "tight");
        assert!(share(1) >= 5.0, "light: {}", share(1));
        near(share(1), share(2), 15.0, "light beside its twin");
        let stats = |group: usize| measured.groups[group].stats.expect("it has a limit");
        near(stats(1).throttled_periods as f64, 100.0, 5.0, "periods of 20 ms in 2 s");
        assert!(stats(0).throttled_periods <= 2, "{:?}", stats(0));
        assert!(stats(2).throttled_periods <= 2, "{:?}", stats(2));
    });
}

/// Wake-ups are measured, and only those in the window: each takes 2 ms and its work.
#[test]
fn a_sleeper_knows_how_late_it_is() {
    let Some(_host) = host() else { return };
    tries(|| {
        let state = tempfile::tempdir().expect("a directory");
        let (sleep, work) = (ms(2), Duration::from_us(50));
        let sleeper = Workload::TimerSleeper(TimerSleeperConfig {
            work,
            ..TimerSleeperConfig::new(Distribution::Fixed(sleep), 1)
        });
        let mut vm = VmConfig::new("sleeper", sleeper);
        vm.threads = vec![Thread { nice: -5, slice: Some(ms(1)), ..Thread::default() }];
        let measured = measure(&config(vec![vm], Vec::new()), ms(1_000), state.path());
        let latency = measured.vms[0].latency.as_ref().expect("it measures");
        let most = 1_000_000 / 2_050;
        assert!((most / 3..=most + 1).contains(&latency.n()), "{} wake-ups", latency.n());
        assert!(!latency.min().is_zero(), "no clock and no scheduler takes no time");
    });
}

/// More pCPUs than there are is an error that says so, not a run of something else.
#[test]
fn too_few_cpus() {
    let mut config = config(vec![VmConfig::new("a", Workload::CpuLoop)], Vec::new());
    config.pcpus = CpuSet::MAX_PCPUS;
    let have = own_cpus().expect("a set of CPUs").len();
    if have >= usize::from(config.pcpus) {
        return;
    }
    let error = run(&config, &Options::new(ms(10), 1), &|_| {}).unwrap_err();
    assert!(error.to_string().contains(&format!("only {have} CPUs")), "{error}");
}
