//! What `lowtail host record` has written, read without lowtail (docs/reference/record.md).

use std::path::Path;

/// What happened on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// One makes place for another; it can go on, or has ended or sleeps.
    Switch { prev: u32, runnable: bool, next: u32 },
    /// One can run from now on.
    Wake { tid: u32 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at_ns: u64,
    pub(crate) cpu: usize,
    pub(crate) what: What,
}

/// All events of a recording in the order of time, and how many were lost.
pub(crate) fn read(file: &Path) -> (Vec<Event>, u64) {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    assert_eq!(&bytes[..6], b"LTRC\x01\x00");
    let (mut events, mut lost, mut at) = (Vec::new(), 0, 8);
    while at < bytes.len() {
        let (kind, size) = (u32_at(at), u32_at(at + 4) as usize);
        at += 8;
        if kind == 5 {
            lost += u64_at(at + 8);
            events.extend((at + 16..at + size).step_by(16).map(|event| {
                let (first, second) = (u32_at(event + 8), u32_at(event + 12));
                let (tid, other) = (first & 0x3f_ffff, second & 0x3f_ffff);
                let runnable = matches!(first >> 24 & 0xf, 0 | 6);
                let what = match first >> 22 & 3 {
                    0 => What::Switch { prev: tid, runnable, next: other },
                    _ => What::Wake { tid },
                };
                Event { at_ns: u64_at(event), cpu: u32_at(at) as usize, what }
            }));
        }
        at += size;
    }
    events.sort_by_key(|event| event.at_ns);
    (events, lost)
}
