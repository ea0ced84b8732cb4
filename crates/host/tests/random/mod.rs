//! Random guests and the seeds they come from, for the tests of properties.

use lowtail_engine::{Duration, Stream};
use lowtail_host::guest::Spread;
use lowtail_host::guest::boost_saver::BoostSaverConfig;
use lowtail_host::guest::bucket_surfer::BucketSurferConfig;
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::edge_burner::EdgeBurnerConfig;
use lowtail_host::guest::request_server::{Load, Path, RequestServerConfig};
use lowtail_host::guest::splitter::SplitterConfig;
use lowtail_host::guest::tick_dodger::{GiveUp, TickDodgerConfig};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::guest::yielder::YielderConfig;
use lowtail_host::{Costs, CpuSet, Pcpu, VmConfig, Workload};

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

/// Costs that are neither nothing nor those of a machine.
pub(crate) const COSTS: Costs = Costs {
    wake_to_tickle: Duration::from_ns(900),
    tickle_to_schedule: Duration::from_ns(3_860),
    tickle_to_schedule_idle: Duration::from_ns(2_100),
    schedule: Duration::from_ns(1_000),
    context_switch: Duration::from_ns(2_000),
    cold_cache: Duration::from_ns(5_000),
};

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
pub(crate) fn random_vm(i: u64, pcpus: u16, caps: bool, stream: &mut Stream) -> VmConfig {
    let span = |stream: &mut Stream| us(10 << stream.below(10));
    let spread = match stream.below(3) {
        0 => Spread::Fixed(span(stream)),
        1 => Spread::Exponential(span(stream)),
        _ => Spread::Uniform(us(1), span(stream)),
    };
    let workload = match stream.below(10) {
        0 => Workload::CpuLoop,
        1 => {
            Workload::DutyHog(DutyHogConfig { burst: spread, busy_percent: 1 + stream.below(100) })
        }
        2 => Workload::Yielder(YielderConfig { work: span(stream) }),
        3 => Workload::TimerSleeper(TimerSleeperConfig {
            sleep: span(stream),
            work: us(5),
            wakeups: u64::MAX,
            late_limit: us(1000),
        }),
        4 => Workload::TickDodger(TickDodgerConfig {
            tick: us(10_000),
            margin: span(stream),
            after: us(50),
            give_up: if stream.below(2) == 0 { GiveUp::Sleep } else { GiveUp::Yield },
        }),
        5 => Workload::BoostSaver(BoostSaverConfig { save: span(stream), burn: span(stream) }),
        6 => Workload::BucketSurfer(BucketSurferConfig {
            burst: span(stream),
            share_percent: 1 + stream.below(100),
        }),
        7 => Workload::Splitter(SplitterConfig { turn: span(stream) }),
        8 => Workload::EdgeBurner(EdgeBurnerConfig {
            period: us(30_000),
            before: span(stream),
            after: span(stream),
        }),
        _ => Workload::RequestServer(RequestServerConfig {
            load: Load::Open(Spread::Exponential(span(stream))),
            service: Spread::Exponential(us(20)),
            path: Path::fixed(us(20)),
            tx_completion: Some(Spread::Uniform(us(10), us(60))),
            tx_completion_work: us(2),
            requests: u64::MAX / 2,
            warmup: 0,
            half: false,
        }),
    };
    let single = matches!(workload, Workload::TimerSleeper(_));
    let mut vm = VmConfig::new(&format!("vm{i}"), workload);
    vm.vcpus = if single { 1 } else { 1 + stream.below(3) as u16 };
    vm.weight = 64 << stream.below(5);
    if caps && stream.below(4) == 0 {
        vm.cap_percent = 10 + stream.below(u64::from(vm.vcpus) * 100 - 10) as u16;
    }
    let mut random_set = |share: u64| -> CpuSet {
        let one = Pcpu(stream.below(u64::from(pcpus)) as u16);
        let more = (0..pcpus).map(Pcpu).filter(|_| stream.below(share) == 0);
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
