//! A million damaged traces, none of which may bring anything down.
//!
//! Seeds are mutated as fuzzers do: bits, bytes, words, pieces doubled, moved, cut. Half of them
//! have their windows' sizes put right afterwards, so that damage gets past the framing.
//! A failure prints how to repeat that one input.

mod common;

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lowtail_trace::{Options, export_perfetto, info, latency};

const SEED: u64 = 0x6c6f_7774_6169_6c31;
const INPUTS: u64 = 1_000_000;
const BYTES_MAX: usize = 1024;

/// `SplitMix64` (Steele, Lea, Flood 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Words that mean something, so that mutations hit something.
const WORDS: [u32; 24] = [
    0,
    1,
    2,
    u32::MAX,
    0x8000_0000,
    0x7fff_0000,
    common::D1,
    common::D2,
    0x2001_f003,
    0xc001_f001,
    0x1001_f002,
    0x9002_1211,
    0x9002_1101,
    0x9002_1011,
    0x9002_1021,
    0x9002_1131,
    0xb002_220d,
    0xb002_2205,
    0x9002_2206,
    0xb002_2214,
    0xa002_2216,
    0xa002_8006,
    0xa002_8005,
    0xa002_8011,
];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![common::sample().bytes];
    // Windows out of the capture, cut to size at a record's end.
    let capture = std::fs::read("data/credit2-4.20-ratelimit1000.bin").unwrap();
    let (mut at, mut window) = (0, 0);
    while at < capture.len() {
        let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap()) as usize;
        let (size, begin) = (word(at + 8), at + 12);
        let mut records = begin;
        while records < begin + size && records - begin < 160 {
            let header = word(records);
            records += 4 + (header >> 31) * 8 + (header >> 28 & 7) * 4;
        }
        let mut seed = capture[at..records].to_vec();
        seed[8..12].copy_from_slice(&((records - begin) as u32).to_le_bytes());
        if window % 2 == 1 {
            // Two pCPUs in one seed.
            let before = seeds.pop().unwrap();
            seed.splice(0..0, before);
        }
        seeds.push(seed);
        (at, window) = (begin + size, window + 1);
    }
    seeds
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        let length = bytes.len();
        let at = random.below(length);
        let word_at = at & !3;
        match random.below(8) {
            0 if length > 0 => bytes[at] ^= 1 << random.below(8),
            1 if length > 0 => bytes[at] = random.next() as u8,
            2..=4 if word_at + 4 <= length => {
                let word = WORDS[random.below(WORDS.len())];
                bytes[word_at..word_at + 4].copy_from_slice(&word.to_le_bytes());
            }
            5 => bytes.truncate(if random.below(4) == 0 { at } else { length }),
            6 if word_at < length => {
                let end = (word_at + 4 * random.below(16)).min(length);
                let piece = bytes[word_at..end].to_vec();
                let to = random.below(bytes.len()) & !3;
                bytes.splice(to..to, piece);
            }
            _ if word_at < length => {
                let end = (word_at + 4 * random.below(8)).min(length);
                bytes.drain(word_at..end);
            }
            _ => {}
        }
    }
    bytes.truncate(BYTES_MAX);
    if random.below(2) == 0 {
        repair(bytes);
    }
}

/// Makes the framing right again where records allow it.
fn repair(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() & !3);
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()))
    };
    let mut window = None;
    let mut at = 0;
    while let Some(header) = word(bytes, at) {
        let end = if header == 0x2001_f003 {
            window = Some(at);
            at + 12
        } else {
            at + 4 + (header >> 31) as usize * 8 + (header >> 28 & 7) as usize * 4
        };
        if end > bytes.len() {
            break;
        }
        at = end;
        if let Some(window) = window {
            let size = (at - window - 12) as u32;
            bytes[window + 8..window + 12].copy_from_slice(&size.to_le_bytes());
        }
    }
    bytes.truncate(at);
}

fn input(seeds: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let mut random = Random(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    let mut bytes = seeds[random.below(seeds.len())].clone();
    mutate(&mut bytes, &mut random);
    bytes
}

/// Returns how many of the three went well.
fn attempt(bytes: &[u8]) -> u32 {
    let options = Options::default();
    let info = info(bytes, &options);
    let latency = latency(bytes, &options);
    let export = export_perfetto(bytes, std::io::sink(), "mutated", &options);
    // If the framing holds, all three come through, except where only the state is too large.
    let errors = [info.as_ref().err(), latency.as_ref().err(), export.as_ref().err()];
    for error in errors.into_iter().flatten() {
        assert!(error.offset().is_some_and(|at| at <= bytes.len() as u64), "{error}");
    }
    if let Ok(latency) = &latency {
        check(latency);
    }
    u32::from(info.is_ok()) + u32::from(latency.is_ok()) + u32::from(black_box(export).is_ok())
}

/// What holds whatever the input.
fn check(latency: &lowtail_trace::Latency) {
    for vcpu in &latency.vcpus {
        let share: f64 = vcpu.blame.iter().map(|blame| blame.share).sum();
        assert!(vcpu.blame.is_empty() || (share - 1.0).abs() < 1e-9 || share == 0.0, "{share}");
        let run = &vcpu.wakeup_latency;
        assert!(run.min <= run.p50 && run.p50 <= run.p99 && run.p99 <= run.max);
        assert!((0.0..=1.0).contains(&vcpu.cpu_ratio), "{}", vcpu.cpu_ratio);
    }
    for pcpu in &latency.pcpus {
        assert!(pcpu.busy_ratio + pcpu.idle_ratio <= 1.0 + 1e-9, "{pcpu:?}");
    }
}

#[test]
fn a_million_mutated_inputs() {
    let seeds = seeds();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("LOWTAIL_MUTATION_SEED").unwrap_or(SEED);
    let numbers = match number("LOWTAIL_MUTATION_INPUT") {
        Some(one) => one..one + 1,
        None => 0..number("LOWTAIL_MUTATION_INPUTS").unwrap_or(INPUTS),
    };
    let count = numbers.end - numbers.start;
    let mut well = [0_u64; 4];
    for number in numbers {
        let bytes = input(&seeds, seed, number);
        match catch_unwind(AssertUnwindSafe(|| attempt(&bytes))) {
            Ok(parts) => well[parts as usize] += 1,
            Err(panic) => {
                eprintln!(
                    "input {number} of seed {seed} failed; repeat it with\n  \
                     LOWTAIL_MUTATION_SEED={seed} LOWTAIL_MUTATION_INPUT={number} \
                     cargo test -p lowtail-trace --test mutation"
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{} read as traces, {} refused, of {count}", well[3], well[0]);
    if count == INPUTS && seed == SEED {
        // Else the test would only ever see the framing, or nothing but it.
        assert!(well[3] > INPUTS / 10, "only {} got past the framing", well[3]);
        assert!(well[0] > INPUTS / 10, "only {} were refused", well[0]);
    }
}
