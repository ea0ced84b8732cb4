//! Random guests and the seeds they come from, for the tests of properties.

use lowtail_engine::{Duration, Rng};
use lowtail_host::guest::Distribution;
use lowtail_host::guest::boost_saver::BoostSaverConfig;
use lowtail_host::guest::bucket_surfer::BucketSurferConfig;
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::edge_burner::EdgeBurnerConfig;
use lowtail_host::guest::request_server::{Load, Path, RequestServerConfig};
use lowtail_host::guest::splitter::SplitterConfig;
use lowtail_host::guest::tick_dodger::{GiveUp, TickDodgerConfig};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::guest::yielder::YielderConfig;
use lowtail_host::{CpuSet, Pcpu, VmConfig, Workload};

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

pub(crate) use lowtail_testkit::netback::COSTS;

/// Runs `property` for each seed, and says how to repeat a failure of `test` in `file`.
/// `LOWTAIL_SEED=n` runs one seed only.
pub(crate) fn for_seeds(
    file: &str,
    test: &str,
    n: u64,
    property: impl Fn(u64) -> Result<(), String>,
) {
    let only = std::env::var("LOWTAIL_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = only.map_or(0..n, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(error) = property(seed) {
            panic!(
                "seed {seed}: {error}\nrepeat: LOWTAIL_SEED={seed} cargo test -p lowtail-host \
                 --test {file} {test}"
            );
        }
    }
}

/// A random workload; all kinds, lengths over three orders of magnitude.
pub(crate) fn random_vm(i: u64, pcpus: u16, caps: bool, rng: &mut Rng) -> VmConfig {
    let span = |rng: &mut Rng| us(10 << rng.below(10));
    let spread = match rng.below(3) {
        0 => Distribution::Fixed(span(rng)),
        1 => Distribution::Exponential(span(rng)),
        _ => Distribution::Uniform(us(1), span(rng)),
    };
    let workload = match rng.below(10) {
        0 => Workload::CpuLoop,
        1 => Workload::DutyHog(DutyHogConfig::busy(spread, 1 + rng.below(100))),
        2 => Workload::Yielder(YielderConfig { work: span(rng) }),
        3 => Workload::TimerSleeper(TimerSleeperConfig {
            work: us(5),
            late_limit: us(1000),
            ..TimerSleeperConfig::new(spread, u64::MAX)
        }),
        4 => Workload::TickDodger(TickDodgerConfig {
            tick: us(10_000),
            margin: span(rng),
            after: us(50),
            give_up: if rng.below(2) == 0 { GiveUp::Sleep } else { GiveUp::Yield },
        }),
        5 => Workload::BoostSaver(BoostSaverConfig { save: span(rng), burn: span(rng) }),
        6 => Workload::BucketSurfer(BucketSurferConfig {
            burst: span(rng),
            share_percent: 1 + rng.below(100),
        }),
        7 => Workload::Splitter(SplitterConfig { turn: span(rng) }),
        8 => Workload::EdgeBurner(EdgeBurnerConfig {
            period: us(30_000),
            before: span(rng),
            after: span(rng),
        }),
        _ => Workload::RequestServer(RequestServerConfig {
            load: Load::Open(Distribution::Exponential(span(rng))),
            service: Distribution::Exponential(us(20)),
            path: Path::fixed(us(20)),
            tx_completion: Some(Distribution::Uniform(us(10), us(60))),
            client: None,
            network_work: Duration::ZERO,
            after_reply: Distribution::ZERO,
            tx_completion_percent: 100,
            tx_completion_work: us(2),
            requests: None,
            warmup: 0,
            half: false,
        }),
    };
    let single = matches!(workload, Workload::TimerSleeper(_));
    let mut vm = VmConfig::new(&format!("vm{i}"), workload);
    vm.vcpus = if single { 1 } else { 1 + rng.below(3) as u16 };
    vm.weight = 64 << rng.below(5);
    if caps && rng.below(4) == 0 {
        vm.cap_percent = 10 + rng.below(u64::from(vm.vcpus) * 100 - 10) as u16;
    }
    let mut random_set = |share: u64| -> CpuSet {
        let one = Pcpu(rng.below(u64::from(pcpus)) as u16);
        let more = (0..pcpus).map(Pcpu).filter(|_| rng.below(share) == 0);
        more.collect::<Vec<_>>().into_iter().chain([one]).collect()
    };
    if i.is_multiple_of(3) {
        vm.hard = random_set(3);
    }
    if i.is_multiple_of(4) {
        vm.soft = random_set(2);
    }
    vm
}
