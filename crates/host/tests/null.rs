//! The host under the simplest scheduler, against sums done by hand.

use lowtail_engine::{Duration, Time};
use lowtail_host::config::Pause;
use lowtail_host::guest::Distribution;
use lowtail_host::guest::client::ClientConfig;
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::request_server::{Batches, Load, OnOff, Path, RequestServerConfig};
use lowtail_host::guest::timer_sleeper::{LongWork, TimerSleeperConfig};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::{Config, Costs, Dom, Host, SchedulerConfig, Vcpu, VmConfig, Workload};

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn server() -> RequestServerConfig {
    RequestServerConfig {
        load: Load::Think(Distribution::Fixed(us(100))),
        service: Distribution::Fixed(us(10)),
        path: Path::fixed(us(50)),
        tx_completion: None,
        client: None,
        network_work: Duration::ZERO,
        after_reply: Distribution::ZERO,
        tx_completion_percent: 100,
        tx_completion_work: us(0),
        requests: Some(1000),
        warmup: 10,
        half: false,
    }
}

fn host(vms: Vec<VmConfig>) -> Config {
    Config::new(vms.len() as u16, SchedulerConfig::Null, Costs::FREE, vms)
}

/// Sleeps and works for so many microseconds, so many times.
fn sleeper(sleep_us: u64, work_us: u64, wakeups: u64) -> Workload {
    Workload::TimerSleeper(TimerSleeperConfig {
        work: us(work_us),
        ..TimerSleeperConfig::new(Distribution::Fixed(us(sleep_us)), wakeups)
    })
}

#[test]
fn a_request_takes_the_sum_of_its_parts() {
    let mut config = host(vec![VmConfig::new("io", Workload::RequestServer(server()))]);
    let mut host = Host::new(&config, 1).unwrap();
    assert!(host.run(Time::ZERO + Duration::from_s(10)));
    let latency = host.outcome(Dom(0)).latency.unwrap();
    // 50 us there, 10 us of work, 50 us back.
    assert_eq!((latency.n(), latency.min(), latency.max()), (1000, us(110), us(110)));

    config.costs = Costs {
        wake_to_tickle: us(1),
        tickle_to_schedule: us(1000),
        tickle_to_schedule_idle: us(2),
        schedule: us(4),
        context_switch: us(1000),
        cold_cache: us(1000),
        ..Costs::FREE
    };
    let mut host = Host::new(&config, 1).unwrap();
    assert!(host.run(Time::ZERO + Duration::from_s(10)));
    let latency = host.outcome(Dom(0)).latency.unwrap();
    // And 1 + 2 + 4 us from the packet to the guest. The pCPU idles in between and has
    // the guest's state still in its caches: no switch, no cold cache.
    assert_eq!((latency.min(), latency.max()), (us(117), us(117)));
    assert_eq!(host.vcpu_stats(Vcpu(0)).wakeup_latency.max(), us(7));
}

/// What a thread of Linux costs besides: each sum by hand.
#[test]
fn a_sleeper_pays_for_its_way_to_sleep_and_back() {
    let workload = sleeper(1_000, 100, 1_000);
    let mut config = host(vec![VmConfig::new("sleeper", workload)]);
    config.costs = Costs {
        wake_to_tickle: us(1),
        tickle_to_schedule_self: Some(us(1_000)),
        tickle_to_schedule_idle: us(2),
        schedule: us(4),
        context_switch: us(1_000),
        context_switch_idle: Some(us(8)),
        block: us(16),
        wakeup: us(32),
        ..Costs::FREE
    };
    let mut host = Host::new(&config, 1).unwrap();
    assert!(host.run(Time::ZERO + Duration::from_s(10)));
    let latency = host.outcome(Dom(0)).latency.unwrap();
    // The first wake-up is at the start, without having slept. Then 1 + 2 us until the scheduler has the pCPU, 4 + 8 us of pass and
    // switch, 32 us of the way back.
    assert_eq!((latency.n(), latency.quantile(0.5), latency.max()), (1_000, us(47), us(47)));
    assert_eq!(host.vcpu_stats(Vcpu(0)).wakeup_latency.max(), us(15));
    // Who is woken pays from the scheduler's pass on, for its work, and for its way into the scheduler.
    let turn = us(4 + 8 + 32 + 100 + 16);
    let turns = host.now().since(Time::ZERO).as_us_f64() / (1_000 + 100 + 47) as f64;
    let share = host.vcpu_time(Vcpu(0)).0.as_us_f64() / (turns * turn.as_us_f64());
    assert!((share - 1.0).abs() < 0.002, "{share}");
}

/// What a sleeper does before it reads the clock is a part of how late it is; every tenth wake-up has other work. Each sum by hand.
#[test]
fn work_before_the_clock_is_read_and_long_work() {
    let sleeper = |late_wait_limit| {
        let long = Some(LongWork { every: 10, work: us(2_000) });
        let rest = TimerSleeperConfig::new(Distribution::Fixed(us(1_000)), 10_000);
        let config = TimerSleeperConfig {
            wake_work: us(7),
            work: us(13),
            long,
            late_limit: us(1_007),
            late_wait_limit,
            ..rest
        };
        let vm = VmConfig::new("sleeper", Workload::TimerSleeper(config));
        let mut host = Host::new(&host(vec![vm]), 1).unwrap();
        // Ten turns, of which one is long; the first turn of all has no sleep.
        let ten = us(10 * 1_007 + 9 * 13 + 2_000);
        host.run_to(Time::ZERO + (ten * 100 - us(1_000)));
        let outcome = host.outcome(Dom(0));
        let latency = outcome.latency.expect("it measures");
        assert_eq!((latency.n(), latency.min(), latency.max()), (1_000, us(7), us(7)));
        assert_eq!(host.vcpu_time(Vcpu(0)).0, us(1_000 * 7 + 900 * 13 + 100 * 2_000));
        outcome.counters
    };
    // From going to sleep to the clock it is 1,007 us each time but the first; the wait alone is 7 us.
    assert_eq!(sleeper(None), [("late", 999)]);
    assert_eq!(sleeper(Some(us(7))), [("late", 1_000)]);
    assert_eq!(sleeper(Some(us(8))), [("late", 0)]);
}

/// Work after a reply is not in its round trip, and keeps who comes meanwhile waiting.
#[test]
fn work_after_a_reply() {
    let run = |after_us, load| {
        let after_reply = Distribution::Fixed(us(after_us));
        let config = RequestServerConfig { after_reply, load, ..server() };
        let vm = VmConfig::new("io", Workload::RequestServer(config));
        let mut host = Host::new(&host(vec![vm]), 1).unwrap();
        assert!(host.run(Time::ZERO + Duration::from_s(10)));
        let latency = host.outcome(Dom(0)).latency.expect("it measures");
        (latency.min(), latency.quantile(0.5), host.vcpu_time(Vcpu(0)).0)
    };
    // One at a time, 1,010 with those that are not measured: the next request comes after the work.
    let think = Load::Think(Distribution::Fixed(us(500)));
    assert_eq!(run(30, think), (us(110), us(110), us(1_010 * 40)));
    // One each 40 us: no waiting with 10 us of work and 30 after it; with 20 us more each waits 20 us more than the last.
    let open = Load::Open(Distribution::Fixed(us(40)));
    assert_eq!(run(30, open).1, us(110));
    assert!(run(50, open).1 > us(110 + 400 * 20));
}

/// A transmit completion comes for so many percent of the replies.
#[test]
fn transmit_completions_of_a_part() {
    let wakes = |percent| {
        let load = Load::Think(Distribution::Fixed(us(500)));
        let tx_completion = Some(Distribution::Fixed(us(20)));
        let config =
            RequestServerConfig { tx_completion_percent: percent, tx_completion, load, ..server() };
        let vm = VmConfig::new("io", Workload::RequestServer(config));
        let mut host = Host::new(&host(vec![vm]), 1).unwrap();
        assert!(host.run(Time::ZERO + Duration::from_s(10)));
        host.vcpu_stats(Vcpu(0)).wakes
    };
    // 1,010 requests, each of which wakes the server, and the completions. Of as many draws at 44 % the deviation is 16: five of these.
    assert_eq!(wakes(100), 2_020);
    assert!(wakes(44).abs_diff(1_454) <= 80, "{}", wakes(44));
}

/// A hog with a start and sleeps of its own: alone, it computes from 3 ms on, 2 ms of each 10.
#[test]
fn a_hog_that_starts_and_sleeps_as_it_is_told() {
    let fixed = |ms| Distribution::Fixed(Duration::from_ms(ms));
    let config = DutyHogConfig { burst: fixed(2), sleep: fixed(8), start: Some(fixed(3)) };
    let cpu_ms = |to_ms| {
        let vm = VmConfig::new("hog", Workload::DutyHog(config));
        let mut host = Host::new(&host(vec![vm]), 1).unwrap();
        host.run_to(Time::ZERO + Duration::from_ms(to_ms));
        host.vcpu_time(Vcpu(0)).0.as_us_f64() / 1_000.0
    };
    let seen = [3, 4, 5, 13, 14, 15, 23].map(cpu_ms);
    assert_eq!(seen, [0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]);
    // The share that a scenario gives is the share that it has.
    for percent in [1, 20, 50, 99, 100] {
        let share = DutyHogConfig::busy(fixed(2), percent).busy_percent();
        assert!((share - percent as f64).abs() < 0.01, "{share} for {percent}");
    }
}

/// What wakes a vCPU while it is on its way to sleep: it stays awake, and nothing is lost.
#[test]
fn a_wakeup_on_the_way_to_sleep() {
    let workload = sleeper(5, 100, 1_000);
    let mut config = host(vec![VmConfig::new("sleeper", workload)]);
    config.costs = Costs { block: us(16), wakeup: us(1_000), ..Costs::FREE };
    let mut host = Host::new(&config, 1).unwrap();
    assert!(host.run(Time::ZERO + Duration::from_s(1)));
    // Its timer is over 5 us after it has begun to go to sleep, which takes 16 us; it never blocks, so that no way back has to be paid.
    let latency = host.outcome(Dom(0)).latency.unwrap();
    assert_eq!((latency.quantile(0.1), latency.max()), (us(11), us(11)));
    assert_eq!(host.vcpu_stats(Vcpu(0)).wakes, 0);
}

/// Ticks take time from who computes, are charged to it, and delay what comes meanwhile; an idle pCPU has none.
#[test]
fn ticks_take_time_from_who_runs() {
    let mut config = host(vec![VmConfig::new("loop", Workload::CpuLoop)]);
    config.costs = Costs { tick: us(10), tick_period: Duration::from_ms(4), ..Costs::FREE };
    let mut host = Host::new(&config, 1).unwrap();
    host.run_to(Time::ZERO + Duration::from_s(1) + us(100));
    let (cpu, work) = host.vcpu_time(Vcpu(0));
    assert_eq!((cpu, cpu - work), (us(1_000_100), us(250 * 10)));

    let workload = sleeper(8_000, 1, 10);
    config.vms = vec![VmConfig::new("sleeper", workload)];
    let mut host = Host::new(&config, 1).unwrap();
    assert!(host.run(Time::ZERO + Duration::from_s(1)));
    // It works 1 us after the tick that its timer meets, and no tick finds it.
    assert_eq!(host.outcome(Dom(0)).latency.unwrap().max(), us(0));
}

#[test]
fn a_cpu_loop_gets_all_of_its_pcpu() {
    let vm = |name| VmConfig::new(name, Workload::CpuLoop);
    let mut host = Host::new(&host(vec![vm("a"), vm("b")]), 1).unwrap();
    host.run_to(Time::ZERO + Duration::from_s(1));
    let all = Duration::from_s(1);
    assert_eq!(host.vcpu_time(Vcpu(0)), (all, all));
    assert_eq!(host.vcpu_time(Vcpu(1)), (all, all));
}

#[test]
fn a_duty_hog_is_busy_for_its_share() {
    let burst = Distribution::Exponential(Duration::from_ms(3));
    let hog = Workload::DutyHog(DutyHogConfig::busy(burst, 30));
    let mut host = Host::new(&host(vec![VmConfig::new("hog", hog)]), 5).unwrap();
    host.run_to(Time::ZERO + Duration::from_s(200));
    // 20,000 bursts: the standard error of their mean is 0.7 %, of the share 0.5 %.
    let share = host.vcpu_time(Vcpu(0)).0.as_s_f64() / host.now().since(Time::ZERO).as_s_f64();
    assert!((share - 0.30).abs() < 0.0075, "{share}");
}

/// Phases of 1 ms with a request each 100 us, and 9 ms without any: 100 phases a second. Batches of five wait
/// for each other: the last of them for all.
#[test]
fn requests_on_and_off_and_in_batches() {
    let run = |load| {
        let config = RequestServerConfig {
            load,
            path: Path::fixed(us(0)),
            requests: None,
            warmup: 0,
            ..server()
        };
        let vm = VmConfig::new("io", Workload::RequestServer(config));
        let mut host = Host::new(&host(vec![vm]), 1).unwrap();
        host.run_to(Time::ZERO + Duration::from_s(1));
        host.outcome(Dom(0)).latency.unwrap()
    };
    let fixed = |n| Distribution::Fixed(us(n));
    let on_off = run(Load::OnOff(OnOff { gap: fixed(100), on: fixed(1000), off: fixed(9000) }));
    // The first of a phase comes a gap after its start, the last at its end: ten in each 10 ms.
    assert!((990..=1_001).contains(&on_off.n()), "{}", on_off.n());
    assert_eq!((on_off.min(), on_off.max()), (us(10), us(10)));
    let batches = run(Load::Batches(Batches { gap: fixed(5000), size: 5 }));
    assert!((995..=1_000).contains(&batches.n()), "{}", batches.n());
    assert_eq!((batches.min(), batches.max()), (us(10), us(50)));
    // Poisson within phases that are exponential, too: half of the time at 2,000 per second. A standard
    // deviation is 45: 32 of the time on, as phases forget in 0.5 ms, and 32 of the number at that time.
    let mean = |n| Distribution::Exponential(us(n));
    let random = run(Load::OnOff(OnOff { gap: mean(500), on: mean(1000), off: mean(1000) }));
    assert!((850..=1_150).contains(&random.n()), "{}", random.n());
}

/// M/M/1: with arrivals at rate l and service at rate m, the time in the system is
/// exponential with mean 1 / (m - l). Here 1 / (20,000 - 14,000) s = 166.7 us at 70 % load.
#[test]
fn an_open_loop_server_is_an_mm1_queue() {
    let config = RequestServerConfig {
        load: Load::Open(Distribution::Exponential(Duration::from_s(1) / 14_000)),
        service: Distribution::Exponential(Duration::from_s(1) / 20_000),
        path: Path::fixed(us(0)),
        requests: Some(2_000_000),
        warmup: 10_000,
        ..server()
    };
    let vm = VmConfig::new("io", Workload::RequestServer(config));
    let mut host = Host::new(&host(vec![vm]), 1).unwrap();
    assert!(host.run(Time::ZERO + Duration::from_s(1000)));
    let latency = host.outcome(Dom(0)).latency.unwrap();
    let mean_us = 1e6 / 6_000.0;
    // 2 M samples with a correlation time of some (1 + rho) / (1 - rho)^2 = 19 services are
    // worth 1e5 independent ones: 0.3 % standard error of the mean, and we ask for 5 sigma.
    let near = |x: f64, y: f64| assert!((x / y - 1.0).abs() < 0.015, "{x} for {y}");
    near(latency.mean().as_us_f64(), mean_us);
    near(latency.quantile(0.5).as_us_f64(), mean_us * 2f64.ln());
    near(latency.quantile(0.99).as_us_f64(), mean_us * 100f64.ln());
}

/// A client on the same host, and a server: on a pCPU each, and together on one.
#[test]
fn a_client_on_the_host_takes_its_part_of_the_round_trip() {
    let latency = |load, scheduler, pcpus| {
        let server = RequestServerConfig {
            client: Some("dom0".to_string()),
            requests: Some(1_000),
            ..RequestServerConfig::new(load, Distribution::Fixed(us(10)))
        };
        let client = ClientConfig { send: us(5), receive: us(7) };
        let vms = vec![
            VmConfig::new("io", Workload::RequestServer(server)),
            VmConfig::new("dom0", Workload::Client(client)),
        ];
        let mut host = Host::new(&Config::new(pcpus, scheduler, Costs::FREE, vms), 1).unwrap();
        assert!(host.run(Time::ZERO + Duration::from_s(10)));
        let latency = host.outcome(Dom(0)).latency.unwrap();
        (latency.min(), latency.max())
    };
    let think = Load::Think(Distribution::Fixed(us(100)));
    let credit2 = || SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen421));
    // Sent, served, received.
    assert_eq!(latency(think, SchedulerConfig::Null, 2), (us(22), us(22)));
    assert_eq!(latency(think, credit2(), 1), (us(22), us(22)));
    // The second one of two at once is sent behind the first, from 5 to 10, served behind it, to 25, and received to 32.
    let two = Load::Batches(Batches { gap: Distribution::Fixed(us(1_000)), size: 2 });
    assert_eq!(latency(two, SchedulerConfig::Null, 2), (us(22), us(27)));
}

/// A client has to be there, and to be one.
#[test]
fn a_client_that_does_not_ask_is_refused() {
    for (client, words) in [("nobody", "not on this host"), ("loop", "no client")] {
        let server = RequestServerConfig { client: Some(client.to_string()), ..server() };
        let vms = vec![
            VmConfig::new("io", Workload::RequestServer(server)),
            VmConfig::new("loop", Workload::CpuLoop),
        ];
        let error = Host::new(&host(vms), 1).expect_err("no client").to_string();
        assert!(error.contains(words) && error.contains(client), "{error}");
    }
}

/// Paused for half a second of three, one that computes has two and a half; a sleeper whose sleep ends meanwhile wakes when it may.
#[test]
fn a_paused_domain_does_not_run() {
    let mut looping = VmConfig::new("loop", Workload::CpuLoop);
    looping.pauses = vec![
        Pause { at: us(1_000_000), length: us(300_000) },
        Pause { at: us(1_300_000), length: us(200_000) },
    ];
    // It works first: due each 1,100 us, at 11,000, too.
    let mut sleeping = VmConfig::new("sleeper", sleeper(1_000, 100, 1_000));
    sleeping.pauses = vec![Pause { at: us(10_500), length: us(9_700) }];
    let mut host = Host::new(&host(vec![looping, sleeping]), 1).unwrap();
    host.run_to(Time::ZERO + us(3_000_000));
    assert_eq!(host.vcpu_time(Vcpu(0)).0, us(2_500_000));
    let late = host.outcome(Dom(1)).latency.unwrap();
    assert_eq!((late.max(), late.quantile(0.99)), (us(20_200 - 11_000), us(0)));
}

/// Pauses that take no time or begin too early.
#[test]
fn pauses_come_one_after_the_other() {
    let refused = |pauses: &[(u64, u64)]| {
        let mut vm = VmConfig::new("loop", Workload::CpuLoop);
        let pause = |&(at, length)| Pause { at: us(at), length: us(length) };
        vm.pauses = pauses.iter().map(pause).collect();
        Host::new(&host(vec![vm]), 1).err().map(|error| error.to_string())
    };
    assert_eq!(refused(&[(5, 5), (10, 1)]), None);
    let error = refused(&[(5, 5), (9, 1)]).expect("too early");
    assert!(error.contains("`loop`") && error.contains("9us") && error.contains("10us"), "{error}");
    assert!(refused(&[(5, 0)]).is_some());
}

/// A hypervisor's timer ends no sooner than 50 us after it is set: of sleeps of 10 us each is 40 us late, of 400 us none.
#[test]
fn short_sleeps_end_with_the_slop_of_timers() {
    for (sleep_us, late_us) in [(10, 40), (50, 0), (400, 0)] {
        let mut config = host(vec![VmConfig::new("sleeper", sleeper(sleep_us, 100, 100))]);
        config.costs = Costs { timer_slop: us(50), ..Costs::FREE };
        let mut host = Host::new(&config, 1).unwrap();
        assert!(host.run(Time::ZERO + Duration::from_s(1)));
        let late = host.outcome(Dom(0)).latency.unwrap();
        assert_eq!(late.quantile(0.5), us(late_us), "sleeps of {sleep_us} us");
    }
}
