//! Schedules that were recorded.

use lowtail_trace::events::events;
use lowtail_trace::{Options, export_perfetto, info, latency};

use crate::reader::{Most, Target};

/// Histograms of each vCPU take some room, and tables.
const MOST: Most = Most { held: (64 << 20, 64 << 10), taken: (512 << 20, 1 << 20) };

pub(super) const XENTRACE: Target =
    Target { name: "xentrace", read: all, bytes_max: 16 << 10, most: MOST, words: &[] };
pub(super) const PERF: Target = Target {
    name: "perf",
    read: |bytes| behind(b"PERFILE2\x10\0\0\0\0\0\0\0", bytes),
    bytes_max: 16 << 10,
    most: MOST,
    words: &["sched:sched_switch", "sched:sched_wakeup", "CPU 0/KVM", "PERFILE2"],
};
pub(super) const RECORDING: Target = Target {
    name: "recording",
    read: |bytes| behind(b"LTRC\x01\0\0\0", bytes),
    bytes_max: 16 << 10,
    most: MOST,
    words: &["LTRC", "web", "qemu"],
};

/// Bytes with this head, unless they have one.
fn behind(head: &[u8], bytes: &[u8]) {
    match bytes.starts_with(&head[..4]) {
        true => all(bytes),
        false => all(&[head, bytes].concat()),
    }
}

/// All that reads traces: what one of them takes for a trace the others do, and an error names its place in the file.
fn all(bytes: &[u8]) {
    let options = Options::default();
    let info = info(bytes, &options);
    let latency = latency(bytes, &options);
    let export = export_perfetto(bytes, std::io::sink(), "fuzz", &options);
    assert_eq!(latency.is_ok(), export.is_ok());
    // What `predict` reads.
    let events = events(bytes, &options, |_, _| Ok(()));
    assert!(latency.is_err() || events.is_ok(), "{:?}", events.err());
    for error in [info.as_ref().err(), latency.as_ref().err(), export.as_ref().err()] {
        let Some(error) = error else { continue };
        let offset = error.offset().expect("a place");
        assert!(offset <= bytes.len() as u64, "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
    if let Ok(info) = &info {
        shown(&info.table());
    }
    let Ok(latency) = latency else { return };
    shown(&latency.table());
    for vcpu in &latency.vcpus {
        let share: f64 = vcpu.blame.iter().map(|blame| blame.share).sum();
        assert!(vcpu.blame.is_empty() || (share - 1.0).abs() < 1e-9 || share == 0.0, "{share}");
        let wait = &vcpu.wakeup_latency;
        assert!(wait.min <= wait.p50 && wait.p50 <= wait.p99 && wait.p99 <= wait.max);
        assert!((0.0..=1.0).contains(&vcpu.cpu_ratio), "{}", vcpu.cpu_ratio);
    }
    for pcpu in &latency.pcpus {
        assert!(pcpu.busy_ratio + pcpu.idle_ratio <= 1.0 + 1e-9, "{pcpu:?}");
    }
}

/// A table moves no cursor, whatever threads are called.
fn shown(table: &str) {
    assert!(!table.is_empty());
    let moves = |c: char| c.is_control() && c != '\n';
    assert!(!table.contains(moves), "{table:?}");
}
