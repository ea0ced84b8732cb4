//! Hand-made traces, word by word.
#![allow(dead_code, unreachable_pub)] // Every test binary uses a part of it.

pub mod linux;

/// Run states as Xen numbers them.
pub const RUNNING: u32 = 0;
pub const RUNNABLE: u32 = 1;
pub const BLOCKED: u32 = 2;
pub const OFFLINE: u32 = 3;

pub const IDLE: u32 = 0x7fff_0000;
/// `d1v0`, as a packed word.
pub const D1: u32 = 0x0001_0000;
/// `d2v0`, as a packed word.
pub const D2: u32 = 0x0002_0000;

/// A trace under construction.
#[derive(Clone, Default)]
pub struct Stream {
    pub bytes: Vec<u8>,
    window_at: Option<usize>,
}

impl Stream {
    /// Records that follow are those of `pcpu`.
    pub fn window(mut self, pcpu: u32) -> Self {
        self.window_at = Some(self.bytes.len());
        [0x2001_f003, pcpu, 0].into_iter().for_each(|word| self.put(word));
        self
    }

    fn put(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    /// A record with a time stamp.
    pub fn record(self, tsc: u64, event: u32, words: &[u32]) -> Self {
        self.raw(1 << 31 | (words.len() as u32) << 28 | event, Some(tsc), words)
    }

    /// A record without one.
    pub fn untimed(self, event: u32, words: &[u32]) -> Self {
        self.raw((words.len() as u32) << 28 | event, None, words)
    }

    fn raw(mut self, header: u32, tsc: Option<u64>, words: &[u32]) -> Self {
        let before = self.bytes.len();
        self.put(header);
        if let Some(tsc) = tsc {
            [tsc as u32, (tsc >> 32) as u32].into_iter().for_each(|word| self.put(word));
        }
        words.iter().for_each(|&word| self.put(word));
        let at = self.window_at.expect("a window comes first") + 8;
        let added = (self.bytes.len() - before) as u32;
        let size = u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()) + added;
        self.bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
        self
    }

    /// A run state change.
    pub fn change(self, tsc: u64, vcpu: u32, old: u32, new: u32) -> Self {
        self.record(tsc, 0x21001 | old << 8 | new << 4, &[vcpu])
    }

    /// One vCPU leaves the pCPU for `left`, another one comes, a tick later.
    pub fn switch(self, tsc: u64, from: u32, left: u32, to: u32) -> Self {
        self.change(tsc, from, RUNNING, left).change(tsc + 1, to, RUNNABLE, RUNNING)
    }

    /// A record that has domain and vCPU as two words.
    pub fn about(self, tsc: u64, event: u32, vcpu: u32) -> Self {
        self.record(tsc, event, &[vcpu >> 16, vcpu & 0xffff])
    }
}

/// Something small with two pCPUs, every kind of record that is looked at, and a loss.
pub fn sample() -> Stream {
    Stream::default()
        .window(0)
        .untimed(0x1f002, &[])
        .record(1000, 0x1f001, &[7, 0x7fff, 500, 0])
        .about(1010, 0x28004, D1)
        .change(1012, D1, BLOCKED, RUNNABLE)
        .record(1014, 0x2220d, &[D1, 1, 9_000_000])
        .record(1015, 0x22203, &[D2, 5_000_000, 0x8000_0000, 100])
        .record(1016, 0x22205, &[D2, 5_000_000, 4_000_000])
        .record(1017, 0x22206, &[1])
        .record(1400, 0x22217, &[D2])
        .record(1401, 0x22214, &[IDLE, u32::MAX, 0])
        .window(1)
        .record(1005, 0x22207, &[D2, 0, 5_000_000])
        .record(1020, 0x22215, &[1, 0])
        .record(1021, 0x22216, &[D2, 20])
        .about(1022, 0x28011, D2)
        .record(1100, 0x22214, &[D1, 1, 9_000_000])
        .switch(1110, D2, RUNNABLE, D1)
        .about(1200, 0x28006, D1)
        .switch(1210, D1, RUNNABLE, D2)
        .record(1215, 0x2220d, &[D1, 1, 9_000_000])
        .window(0)
        .record(1500, 0x2f0f0, &[1, 2, 3])
        .about(1501, 0x28005, D2)
        .window(1)
        .switch(1600, D2, RUNNABLE, D1)
        .change(1700, D1, RUNNING, OFFLINE)
        .change(1701, D2, RUNNABLE, RUNNING)
        .change(1800, D1, OFFLINE, RUNNABLE)
        .switch(1900, D2, BLOCKED, D1)
        .record(1950, 0x21002, &[D1])
}
