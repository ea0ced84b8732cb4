//! Xen's credit2 and credit with the patches of `patches/xen`, on random hosts: what they bound, and what they cost in passes of the
//! scheduler, beside the same hosts without them.

#[expect(dead_code, reason = "the guests here are all of one kind")]
mod random;

use lowtail_engine::{Distribution, Duration, Rng, Time};
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::{Config, Costs, Host, Pcpu, SchedulerConfig, Vcpu, VmConfig, Workload};
use random::{COSTS, us};

/// Xen's timers end no sooner than 50 us after they are set (`timer_slop`).
const SLOP: Duration = us_const(50);
/// From the end of the limit to the guest: a wake-up that is told, a pass, a switch, and a pass that was under way.
const AROUND: Duration = us_const(20);
/// Wake-ups that are counted.
const WAKEUPS: u64 = 2_000;

const fn us_const(n: u64) -> Duration {
    Duration::from_us(n)
}

/// What came of a host.
struct Ran {
    /// The longest wait of the sleeper.
    longest: Duration,
    /// Passes of all schedulers for each of its wake-ups.
    passes: f64,
    /// Passes of all schedulers in a second.
    per_second: f64,
}

/// A sleeper that computes little, of this seed, beside a loop on each of 1 to `pcpus` pCPUs, and whether another VM is there that sleeps
/// and computes; gives the host and its rate limit.
fn host(
    seed: u64,
    pcpus: u64,
    scheduler: impl Fn(Duration) -> SchedulerConfig,
) -> (Config, Duration) {
    let rng = &mut Rng::new(seed, "mended");
    let limit = [100, 200, 500, 1_000, 2_000, 5_000][rng.below(6) as usize];
    let pcpus = 1 + rng.below(pcpus) as u16;
    let sleep = match rng.below(3) {
        0 => Distribution::Fixed(us(20 + rng.below(8_000))),
        1 => Distribution::Exponential(us(20 + rng.below(4_000))),
        _ => Distribution::Uniform(us(20), us(50 + rng.below(8_000))),
    };
    let sleeper = TimerSleeperConfig {
        work: us(1 + rng.below(20)),
        late_limit: Duration::from_s(1),
        ..TimerSleeperConfig::new(sleep, WAKEUPS)
    };
    let mut vms = vec![VmConfig::new("sleeper", Workload::TimerSleeper(sleeper))];
    vms.extend((0..pcpus).map(|i| VmConfig::new(&format!("loop{i}"), Workload::CpuLoop)));
    let costs = Costs { timer_slop: SLOP, ..COSTS };
    let limit = us(limit);
    (Config::new(pcpus, scheduler(limit), costs, vms), limit)
}

fn run(config: &Config, seed: u64) -> Ran {
    let mut host = Host::new(config, seed).expect("valid");
    // The sleeper ends by itself; 20 ms a wake-up are more than any needs here.
    host.run(Time::ZERO + Duration::from_ms(20 * WAKEUPS));
    let stats = host.vcpu_stats(Vcpu(0));
    // Its first sleep begins when it boots.
    assert!(stats.wakes + 1 >= WAKEUPS, "only {} wake-ups", stats.wakes);
    let passes: u64 = (0..config.pcpus).map(|p| host.pcpu_stats(Pcpu(p)).schedules).sum();
    Ran {
        longest: stats.wakeup_latency.max(),
        passes: passes as f64 / stats.wakes as f64,
        per_second: passes as f64 / host.now().since(Time::ZERO).as_s_f64(),
    }
}

fn credit2(version: Credit2Version) -> impl Fn(Duration) -> SchedulerConfig {
    move |ratelimit| {
        SchedulerConfig::Credit2(Credit2Config { ratelimit, ..Credit2Config::new(version) })
    }
}

fn credit(version: CreditVersion) -> impl Fn(Duration) -> SchedulerConfig {
    move |ratelimit| {
        SchedulerConfig::Credit(CreditConfig { ratelimit, ..CreditConfig::new(version) })
    }
}

fn for_seeds(test: &str, n: u64, property: impl Fn(u64) -> Result<(), String>) {
    random::for_seeds("mended", test, n, property);
}

/// A sleeper has burnt less than a loop, so that only the rate limit is in its way: it waits until that is over, on the pCPU where it is
/// over first. Without the patch some of these hosts have it wait for the rest of a slice of 10 ms.
#[test]
fn credit2_waits_no_longer_than_the_rate_limit() {
    let mut trapped = 0;
    for seed in 0..60 {
        let (config, limit) = host(seed, 3, credit2(Credit2Version::Xen421));
        trapped += u32::from(run(&config, seed).longest > limit + us(1_000));
    }
    assert!(trapped >= 20, "the trap is in {trapped} of 60 hosts: they show nothing");
    for_seeds("credit2_waits_no_longer_than_the_rate_limit", 60, |seed| {
        let (config, limit) = host(seed, 3, credit2(Credit2Version::Mended));
        let longest = run(&config, seed).longest;
        match longest <= limit + SLOP + AROUND {
            true => Ok(()),
            false => Err(format!("limit {limit}, waited {longest}")),
        }
    });
}

/// What the change of 2017 saves stays saved: a wake-up under the rate limit causes no pass of its own. The end of the limit takes the place
/// of the end of the slice, so that a wake-up costs as many passes as before, over all hosts. On one it may be a tenth more: who no longer
/// sits out slices also meets loops that have a whole one before them.
#[test]
fn credit2_enters_its_scheduler_no_more_often_for_a_wakeup() {
    let passes = |seed, version| run(&host(seed, 3, credit2(version)).0, seed).passes;
    let (mut before, mut mended) = (0.0, 0.0);
    for seed in 0..60 {
        let (one, other) =
            (passes(seed, Credit2Version::Xen421), passes(seed, Credit2Version::Mended));
        assert!(other <= 1.1 * one, "seed {seed}: {other} passes a wake-up, {one} before");
        before += one;
        mended += other;
    }
    assert!(mended <= 1.05 * before, "{mended} instead of {before} passes a wake-up, by 60 hosts");
}

/// Where no wake-up comes within the limit, nothing is different: the sleeper sleeps longer than the limit and computes for less than a
/// tick, so that it finds a loop that has run for longer.
#[test]
fn credit2_is_as_before_where_the_limit_is_in_nobodys_way() {
    for_seeds("credit2_is_as_before_where_the_limit_is_in_nobodys_way", 20, |seed| {
        let of = |version| {
            let (mut config, limit) = host(seed, 1, credit2(version));
            let Workload::TimerSleeper(sleeper) = &mut config.vms[0].workload else {
                unreachable!("the first is the sleeper")
            };
            sleeper.sleep = Distribution::Fixed(limit + us(100 + seed * 50));
            run(&config, seed)
        };
        let (before, mended) = (of(Credit2Version::Xen421), of(Credit2Version::Mended));
        match before.longest == mended.longest && before.per_second == mended.per_second {
            true => Ok(()),
            false => Err(format!("{} instead of {}", mended.longest, before.longest)),
        }
    });
}

/// Beside a VM that sleeps and computes, credit's wait is still bounded by the rate limit, and a timer is at least 100 us: what is left of
/// the limit is rounded up to that. Passes may only become fewer.
#[test]
fn credit_keeps_its_limit_and_sets_no_short_timer() {
    let slept = |seed, version| {
        let (mut config, limit) = host(seed, 1, credit(version));
        // A tick that finds the sleeper would have it wait for a slice of the loop: rare, and not what this is about.
        let hog = DutyHogConfig::busy(Distribution::Fixed(us(3_000)), 50);
        config.vms[1].workload = Workload::DutyHog(hog);
        (run(&config, seed), limit)
    };
    let mut later = 0;
    for_seeds("credit_keeps_its_limit_and_sets_no_short_timer", 60, |seed| {
        let (mended, limit) = slept(seed, CreditVersion::Mended);
        let (before, _) = slept(seed, CreditVersion::Today);
        match mended.passes <= 1.05 * before.passes {
            true => Ok(()),
            false => Err(format!("limit {limit}: {} passes, {}", mended.passes, before.passes)),
        }
    });
    for seed in 0..60 {
        let differ = slept(seed, CreditVersion::Mended).0.longest
            != slept(seed, CreditVersion::Today).0.longest;
        later += u32::from(differ);
    }
    assert!(later > 0, "no host on which it makes a difference");
}
