//! Bad input gives an error that names the byte and says what would be right.

mod common;

use common::{BLOCKED, D1, RUNNABLE, Stream, sample};
use lowtail_trace::{Error, Options, export_perfetto, info, latency};

fn all(bytes: &[u8]) -> [Result<(), Error>; 3] {
    let options = Options::default();
    [
        info(bytes, &options).map(|_| ()),
        latency(bytes, &options).map(|_| ()),
        export_perfetto(bytes, std::io::sink(), "test", &options).map(|_| ()),
    ]
}

fn well(bytes: &[u8]) {
    all(bytes).into_iter().for_each(Result::unwrap);
}

fn error(bytes: &[u8]) -> Error {
    let [info, latency, export] = all(bytes).map(Result::unwrap_err);
    assert_eq!(info.to_string(), latency.to_string());
    assert_eq!(info.to_string(), export.to_string());
    let offset = info.offset().unwrap();
    assert!(info.to_string().starts_with(&format!("offset {offset}: ")), "{info}");
    info
}

#[test]
fn empty() {
    assert!(matches!(error(&[]), Error::Empty));
}

#[test]
fn truncated_at_every_byte() {
    let stream = sample();
    well(&stream.bytes);
    // At these offsets a window ends, so that what comes before is a whole trace.
    let mut window_ends = vec![0];
    while *window_ends.last().unwrap() < stream.bytes.len() {
        let at = window_ends.last().unwrap();
        let size = u32::from_le_bytes(stream.bytes[at + 8..at + 12].try_into().unwrap());
        window_ends.push(at + 12 + size as usize);
    }
    for length in 1..stream.bytes.len() {
        if window_ends.contains(&length) {
            well(&stream.bytes[..length]);
            continue;
        }
        let error = error(&stream.bytes[..length]);
        assert!(matches!(error, Error::Truncated { .. }), "cut to {length}: {error}");
        assert_eq!(error.offset(), Some(length as u64), "{error}");
    }
}

#[test]
fn wrong_endianness() {
    let swapped: Vec<u8> =
        sample().bytes.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    let error = error(&swapped);
    assert!(matches!(error, Error::WrongEndian { word: 0x03f0_0120 }), "{error}");
    assert!(error.to_string().contains("bytes reversed"));
}

#[test]
fn not_a_trace() {
    for text in ["#!/bin/sh\necho this is no trace", "abcd", "PK\x03\x04xxxxxxxxxxxxxxxxxxx"] {
        let error = error(text.as_bytes());
        assert!(matches!(error, Error::NotATrace { .. }), "{error}");
        assert!(error.to_string().contains("0x2001f003"));
    }
}

#[test]
fn unknown_records_are_skipped_and_counted() {
    let clean = Stream::default()
        .window(0)
        .change(1000, D1, BLOCKED, RUNNABLE)
        .change(1500, D1, RUNNABLE, 0);
    let strewn = Stream::default()
        .window(0)
        .change(1000, D1, BLOCKED, RUNNABLE)
        .record(1100, 0x2_8777, &[1, 2, 3])
        .untimed(0x000_0000, &[])
        .record(1200, 0xfff_ffff, &[1, 2, 3, 4, 5, 6, 7])
        .change(1500, D1, RUNNABLE, 0);
    let options = Options::default();
    assert_eq!(
        latency(&clean.bytes[..], &options).unwrap(),
        latency(&strewn.bytes[..], &options).unwrap()
    );
    let info = info(&strewn.bytes[..], &options).unwrap();
    assert_eq!((info.records, info.unknown_records), (5, 3));
    assert!(info.events.iter().any(|event| event.name == "0x0028777" && event.records == 1));
}

#[test]
fn records_shorter_than_their_event_are_skipped_and_counted() {
    let stream = Stream::default().window(0).record(1000, 0x22206, &[]).record(1100, 0x28004, &[]);
    let latency = latency(&stream.bytes[..], &Options::default()).unwrap();
    assert_eq!(latency.records.short, 2);
}

#[test]
fn framing_is_checked() {
    let word = |bytes: &mut Vec<u8>, at: usize, word: u32| {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    };
    let good = Stream::default().window(3).change(1000, D1, BLOCKED, RUNNABLE);
    let good = good.window(4).change(1001, D1, RUNNABLE, 0).bytes;
    well(&good);
    let cases: [(usize, u32, u64, &str); 7] = [
        // What is changed, to what, where the error is, what it says.
        (4, 4096, 0, "pCPU 4096; pCPU numbers up to 4095"),
        (8, 17, 0, "17 bytes for pCPU 3: a window is a multiple of 4"),
        (8, 0x1000_0000, 0, "268435456 bytes"),
        (8, 12, 12, "a record of 16 bytes (header 0x90021211) where the window of pCPU 3 has 12"),
        (12, 0x9001_f003, 12, "TRC_TRACE_CPU_CHANGE has 1 extra words"),
        (28, 0x2001_f002, 28, "expected the next window (0x2001f003) and found 0x2001f002"),
        (12, 0x1002_1211, 20, "where the window of pCPU 3 has 8 bytes left"),
    ];
    for (at, new, offset, text) in cases {
        let mut bytes = good.clone();
        word(&mut bytes, at, new);
        if at == 12 && new == 0x1002_1211 {
            // Without its time stamp the record is 8 bytes; and it is refused for that.
            let error = error(&bytes);
            assert!(error.to_string().contains("1 extra words and no time stamp"), "{error}");
            continue;
        }
        let error = error(&bytes);
        assert_eq!(error.offset(), Some(offset), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn too_many_vcpus() {
    let mut stream = Stream::default().window(0);
    for vcpu in 0..=lowtail_trace::VCPUS_MAX as u32 {
        stream = stream.change(1000 + u64::from(vcpu), vcpu, BLOCKED, RUNNABLE);
    }
    let options = Options::default();
    let offset = 12 + 16 * lowtail_trace::VCPUS_MAX as u64;
    let errors = [
        info(&stream.bytes[..], &options).unwrap_err(),
        latency(&stream.bytes[..], &options).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::VcpuLimit { .. }), "{error}");
        assert_eq!(error.offset(), Some(offset));
    }
}

#[test]
fn a_reader_that_fails_or_trickles() {
    /// Gives one byte at a time and fails at the end.
    struct Trickle<'a>(&'a [u8]);
    impl std::io::Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let (first, rest) = self.0.split_first().ok_or(std::io::ErrorKind::ConnectionReset)?;
            into[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }
    let bytes = sample().bytes;
    let error = info(Trickle(&bytes), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert_eq!(error.offset(), Some(bytes.len() as u64));
}
