//! Recordings that are damaged or made to do harm: they end in an error or a bounded result.

mod common;

use lowtail_engine::{Distribution, Duration};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};
use lowtail_predict::{Change, Error, Recording, Setup, predict, recorded_scheduler};
use lowtail_testkit::seed::seed;
use lowtail_trace::Options;
use lowtail_trace::recording::{About, Writer};

/// `SplitMix64` (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn fair() -> SchedulerConfig {
    SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612))
}

/// All that can be predicted of it, or why not.
fn all(bytes: &[u8]) -> Result<(), Error> {
    let recording = Recording::read(bytes, &Options::default())?;
    let scheduler = recorded_scheduler(&recording.host, None).unwrap_or_else(|_| fair());
    let as_it_was = Setup::new(scheduler);
    let small_first = SchedulerConfig::SmallFirst(SmallFirstConfig::default());
    let setup = Setup { cpus: Some(3), ..Setup::new(small_first) };
    let change = Change { setup: Some(setup), policy: None };
    let prediction = predict(&recording, &as_it_was, &change, 2, true)?;
    assert!(prediction.table().len() < 1 << 20);
    Ok(())
}

/// Three threads for 50 ms.
fn good() -> Vec<u8> {
    let sleeper = |n: u64| {
        let sleep = Distribution::Exponential(Duration::from_us(400 + 300 * n));
        Workload::TimerSleeper(TimerSleeperConfig::new(sleep, 1 << 40))
    };
    let mut vms: Vec<_> = (0..2).map(|n| VmConfig::new(&format!("vm{n}"), sleeper(n))).collect();
    vms.push(VmConfig::new("batch", Workload::CpuLoop));
    common::recorded(&Config::new(2, fair(), Costs::FREE, vms), Duration::from_ms(50))
}

#[test]
fn damage_brings_nothing_down() {
    let (good, first) = (good(), seed());
    all(&good).unwrap();
    let (mut well, mut bad) = (0, 0);
    for number in 0..400_u64 {
        let mut state = first.wrapping_mul(1 << 32).wrapping_add(number);
        let mut bytes = good.clone();
        for _ in 0..=random(&mut state) % 6 {
            let at = random(&mut state) as usize % bytes.len();
            match random(&mut state) % 3 {
                0 => bytes[at] = random(&mut state) as u8,
                1 => bytes[at] ^= 1 << (random(&mut state) % 8),
                _ => {
                    // Part of an event in place of another's.
                    let from = random(&mut state) as usize % bytes.len();
                    let length = 8.min(bytes.len() - at.max(from));
                    bytes.copy_within(from..from + length, at);
                }
            }
        }
        match all(&bytes) {
            Ok(()) => well += 1,
            Err(error) => {
                assert!(error.to_string().len() < 2_000, "{error}");
                bad += 1;
            }
        }
    }
    assert!(well > 40 && bad > 40, "{well} {bad}");
}

/// The same of a recording of Xen.
#[test]
fn damage_to_a_recording_of_xen_brings_nothing_down() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let good = std::fs::read(path.join("../trace/data/credit-4.20-boost.bin")).unwrap();
    all(&good).unwrap();
    let (first, mut well, mut bad) = (seed(), 0, 0);
    for number in 0..200_u64 {
        let mut state = first.wrapping_mul(1 << 32).wrapping_add(number);
        let mut bytes = good.clone();
        for _ in 0..=random(&mut state) % 6 {
            let at = random(&mut state) as usize % bytes.len();
            bytes[at] ^= 1 << (random(&mut state) % 8);
        }
        match all(&bytes) {
            Ok(()) => well += 1,
            Err(error) => {
                assert!(error.to_string().len() < 2_000, "{error}");
                bad += 1;
            }
        }
    }
    assert!(well > 20 && bad > 20, "{well} {bad}");
}

/// One that ends in the midst of a record is refused, with the place; one that ends behind a window is shorter.
#[test]
fn half_a_recording_of_xen_is_an_error_or_shorter() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let good = std::fs::read(path.join("../trace/data/credit2-4.20-ratelimit1000.bin")).unwrap();
    let (first, mut refused) = (seed(), 0);
    for number in 0..40_u64 {
        let mut state = first.wrapping_mul(1 << 32).wrapping_add(number);
        let length = random(&mut state) as usize % good.len();
        if let Err(error) = all(&good[..length]) {
            assert!(matches!(error, Error::Trace(_) | Error::Empty), "{length}: {error}");
            refused += 1;
        }
    }
    assert!(refused >= 30, "{refused}");
}

/// Events of chance: threads that wake each other in circles, without having run, on CPUs that others have, at absurd times.
#[test]
fn events_of_chance_end() {
    let first = seed();
    for number in 0..60_u64 {
        let mut state = first.wrapping_mul(1 << 32).wrapping_add(number);
        let about = About { begin_ns: 0, begin_unix_ns: 0, cpus: 4, kernel: "6.12".to_owned() };
        let mut writer = Writer::new(Vec::new(), &about).unwrap();
        let threads = 2 + random(&mut state) % 20;
        let step = [1, 1_000, 1_000_000, 100_000_000][random(&mut state) as usize % 4];
        let mut now = [0_u64; 4];
        for _ in 0..400 {
            let cpu = random(&mut state) as usize % 4;
            now[cpu] += random(&mut state) % step;
            let thread = |state: &mut u64| (random(state) % threads) as u32;
            let (a, b) = (thread(&mut state), thread(&mut state));
            let (first, second) = match random(&mut state) % 2 {
                0 => (a | (random(&mut state) as u32 % 7) << 24, b),
                // A wake-up, with any context.
                _ => (a | 1 << 22 | (random(&mut state) as u32 % 16) << 24, b),
            };
            let mut event = now[cpu].to_le_bytes().to_vec();
            event.extend(first.to_le_bytes());
            event.extend(second.to_le_bytes());
            writer
                .events(cpu as u32, u64::from(random(&mut state).is_multiple_of(50)), &event)
                .unwrap();
        }
        let end = now.into_iter().max().unwrap();
        let bytes = writer.finish(end, 0).unwrap().0;
        if let Err(error) = all(&bytes) {
            assert!(!matches!(error, Error::Host(_)), "{number}: {error}");
        }
    }
}

#[test]
fn a_recording_of_years_is_refused() {
    let about = About { begin_ns: 0, begin_unix_ns: 0, cpus: 1, kernel: "6.12".to_owned() };
    let mut writer = Writer::new(Vec::new(), &about).unwrap();
    let mut event = (1_u64 << 60).to_le_bytes().to_vec();
    event.extend(7_u32.to_le_bytes());
    event.extend(8_u32.to_le_bytes());
    writer.events(0, 0, &event).unwrap();
    let bytes = writer.finish(1 << 61, 0).unwrap().0;
    assert!(matches!(all(&bytes), Err(Error::Span { .. })));
}
