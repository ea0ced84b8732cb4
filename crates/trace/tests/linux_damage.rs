//! Files of Linux hosts that are cut, damaged or made to do harm.

mod common;

use std::hint::black_box;

use common::linux::{Pipe, RUNNABLE, begin, facts, queues, switch, wake};
use lowtail_trace::{Error, Options, Role, export_perfetto, info, latency};

fn recording() -> Vec<u8> {
    let mut out = begin();
    out.thread(7, 7, b"CPU 0/KVM").unwrap();
    let vm = out.vm("web", "qemu").unwrap();
    out.member(7, vm, Role::Vcpu(0)).unwrap();
    facts(&mut out);
    let events = [switch(2_000, 0, RUNNABLE, 7), wake(3_000, 8, 1, 7), switch(4_000, 7, 1, 8)];
    out.events(0, 0, &events.concat()).unwrap();
    out.events(1, 5, &switch(2_500, 0, RUNNABLE, 9)).unwrap();
    out.queues(&queues(1_000)).unwrap();
    out.round(4_000).unwrap();
    out.events(1, 0, &switch(5_000, 9, 4, 0)).unwrap();
    out.finish(6_000, 0).unwrap().0
}

fn perf() -> Vec<u8> {
    let mut pipe = Pipe::new();
    pipe.comm(6, 7, "CPU 3/KVM");
    pipe.switch(2_000, 0, (0, "swapper/0"), 0, (8, "make"));
    pipe.wake(5_000, 0, 8, (7, "CPU 3/KVM"), 0);
    pipe.record(68, &[]);
    pipe.switch(45_000, 0, (8, "make"), 0x100, (7, "CPU 3/KVM"));
    pipe.record(2, &[1, 5, 0, 61_000, 0, 1].map(u64::to_le_bytes).concat());
    pipe.bytes
}

/// All that reads traces; an error names its place in the file.
fn all(bytes: &[u8]) -> Result<(), Error> {
    let options = Options::default();
    let latency = latency(bytes, &options);
    let export = export_perfetto(bytes, std::io::sink(), "test", &options);
    assert_eq!(latency.is_ok(), export.is_ok());
    let info = info(bytes, &options);
    if let Ok(latency) = &latency {
        black_box(latency.table());
    }
    let error = match (latency, info) {
        (Ok(_), Ok(info)) => {
            black_box(info.table());
            return Ok(());
        }
        (Err(error), _) | (_, Err(error)) => error,
    };
    let offset = error.offset().unwrap_or_else(|| panic!("no offset: {error}"));
    assert!(offset <= bytes.len() as u64, "{error}");
    assert!(error.to_string().starts_with(&format!("offset {offset}: ")), "{error}");
    Err(error)
}

#[test]
fn a_recording_cut_at_any_byte_is_told_as_such() {
    let whole = recording();
    all(&whole).unwrap();
    for length in 4..whole.len() {
        let error = all(&whole[..length]).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "cut to {length}: {error}");
        assert_eq!(error.offset(), Some(length as u64), "{error}");
    }
}

#[test]
fn a_pipe_of_perfs_cut_within_a_record_is_told_as_such() {
    let whole = perf();
    all(&whole).unwrap();
    let mut cut = 0;
    for length in 8..whole.len() {
        match all(&whole[..length]) {
            // perf's own end is not marked: cut between records, it is a shorter one.
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, Error::Truncated { .. }), "cut to {length}: {error}");
                cut += 1;
            }
        }
    }
    assert!(cut + 12 > whole.len() - 8, "{cut}");
}

#[test]
fn what_is_wrong_is_named() {
    let good = recording();
    // The head of the second block, behind that of 8 bytes and the first of 8 + 32.
    let second = 8 + 8 + 32;
    let cases: [(usize, &[u8], &str); 6] = [
        (4, &[2, 0], "offset 4: a recording of version 2; this lowtail reads version 1"),
        (8, &[2], "offset 8: the first block is not the one about the recording"),
        (second + 4, &[7], "a block of kind 2 and 7 bytes"),
        (
            second + 4,
            &[0, 0, 32, 0],
            "a block of kind 2 and 2097152 bytes; one of that kind has 0 to 1048576",
        ),
        (
            good.len() - 24,
            &[9],
            "the file says that it has 9 events and 5 were lost, and has 5 and 5",
        ),
        (good.len() - 40, &[9, 0, 0, 0], "without its last block"),
    ];
    for (at, bytes, words) in cases {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let error = all(&bad).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    // An interval of queues: the number of a sender, and what an entry is.
    let block = [11u32.to_le_bytes(), (16 + 7 * 32_u32).to_le_bytes()].concat();
    let at = good.windows(8).position(|bytes| bytes == block).expect("seven entries");
    for (at, bytes, words) in [
        (at + 24 + 8, 77, "sender 77 is not named"),
        (at + 24, 1, "an entry of kind 1 in an interval of queues names the wrong thing"),
    ] {
        let mut bad = good.clone();
        bad[at] = bytes;
        let error = all(&bad).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    // How the host schedules: heads of the blocks, and what in them is wrong.
    let block = |kind: u32, size: u32, nth: usize| {
        let head = [kind.to_le_bytes(), size.to_le_bytes()].concat();
        let found = (0..good.len() - 8).filter(|&at| good[at..at + 8] == head);
        found.skip(nth).map(|at| at + 8).next().unwrap_or_else(|| panic!("block {kind} of {size}"))
    };
    // 56 bytes, one range, two words of 4 and 11 bytes; 48 bytes and a path of 7; a set of two ranges; a thread.
    let (kernel, group) = (block(12, 80, 0), block(13, 56, 0));
    let (set, thread) = (block(14, 16, 0), block(15, 40, 0));
    for (at, bytes, words) in [
        (kernel - 4, &[8][..], "a block of kind 12 and 8 bytes; one of that kind has 56 to"),
        (kernel + 40, &[255, 255, 255, 255], "CPUs that are online are no set of CPUs"),
        (kernel + 44, &[0, 0, 0, 128], "a word about the scheduler is longer than its block"),
        (kernel + 48, &[20], "a word about the scheduler is longer than its block"),
        (group - 4, &[40], "a block of kind 13 and 40 bytes; one of that kind has 48 to"),
        (group, &[1], "control group 1 is below 1, which is not before it"),
        (group + 40, &[255, 255, 255, 255], "a control group's path is longer than its block"),
        (set, &[3], "a set of CPUs that is none"),
        (set + 8, &[9], "a set of CPUs that is none"),
        (thread + 4, &[2], "thread 7 has control group 2, which is not there"),
        (thread + 8, &[1], "thread 7 has set of CPUs 1, which is not there"),
    ] {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let error = all(&bad).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = all(&[&good[..], &[1; 8]].concat()).unwrap_err();
    assert!(error.to_string().contains("a block of kind") || error.to_string().contains("follows"));
}

/// A block of a kind that a later version has is passed over.
#[test]
fn unknown_blocks_are_skipped_and_counted() {
    let good = recording();
    let mut longer = good[..48].to_vec();
    longer.extend([99, 0, 0, 0, 8, 0, 0, 0]);
    longer.extend([0xff; 8]);
    longer.extend(&good[48..]);
    let options = Options::default();
    assert_eq!(info(&longer[..], &options).unwrap().unknown_records, 1);
    assert_eq!(latency(&longer[..], &options).unwrap(), latency(&good[..], &options).unwrap());
}

/// `SplitMix64` (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// 150,000 damaged files of both kinds: bytes changed, pieces doubled, moved and cut. Nothing panics; each error has its
/// place.
#[test]
fn damage_brings_nothing_down() {
    let seeds = [recording(), perf()];
    let first: u64 = std::env::var("LOWTAIL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut well, mut bad) = (0, 0);
    for number in 0..150_000_u64 {
        let mut state = first.wrapping_mul(1 << 32).wrapping_add(number);
        let mut bytes = seeds[(number % 2) as usize].clone();
        for _ in 0..=random(&mut state) % 4 {
            let mut below = |end: usize| (random(&mut state) % end.max(1) as u64) as usize;
            let (at, kind, value) = (below(bytes.len()), below(6), below(256) as u8);
            let length = below(40).min(bytes.len() - at);
            match kind {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value & 7),
                2 => bytes[at..at + length].fill(if value & 1 == 0 { 0 } else { 0xff }),
                3 => {
                    let piece = bytes[at..at + length].to_vec();
                    bytes.splice(at..at, piece);
                }
                4 => drop(bytes.drain(at..at + length)),
                _ => bytes.truncate(at.max(9)),
            }
            bytes.resize(bytes.len().max(9), 0);
        }
        let outcome = std::panic::catch_unwind(|| {
            // Without its first bytes it is no longer a file of these kinds.
            if bytes.starts_with(b"LTRC") || bytes.starts_with(b"PERFILE2") {
                return all(&bytes).is_ok();
            }
            false
        });
        match outcome {
            Ok(true) => well += 1,
            Ok(false) => bad += 1,
            Err(_) => panic!("LOWTAIL_SEED={first}, number {number}: {bytes:?}"),
        }
    }
    println!("{well} still read, {bad} refused");
    assert!(well > 10_000 && bad > 10_000);
}
