//! A reader of recordings that shares no line with the one that is tested: the format as `docs/reference/record.md` has it.

/// A switch or a wake-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) cpu: u32,
    pub(crate) at_ns: u64,
    pub(crate) kind: u32,
    /// Why the thread has left its CPU, or how it was woken.
    pub(crate) how: u32,
    pub(crate) tid: u32,
    pub(crate) other: u32,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// All events, and how many were lost.
pub(crate) fn all(file: &[u8]) -> (Vec<Event>, u64) {
    assert_eq!(&file[..8], b"LTRC\x01\0\0\0");
    let (mut at, mut events, mut lost) = (8, Vec::new(), 0);
    while at < file.len() {
        let (kind, size) = (word(file, at), word(file, at + 4) as usize);
        let block = &file[at + 8..at + 8 + size];
        if kind == 5 {
            lost += u64::from_le_bytes(block[8..16].try_into().unwrap());
            events.extend(block[16..].chunks(16).map(|event| Event {
                cpu: word(block, 0),
                at_ns: u64::from_le_bytes(event[..8].try_into().unwrap()),
                kind: word(event, 8) >> 22 & 3,
                how: word(event, 8) >> 24 & 15,
                tid: word(event, 8) & 0x3f_ffff,
                other: word(event, 12) & 0x3f_ffff,
            }));
        }
        at += 8 + size;
    }
    (events, lost)
}
