//! What a tagger has counted.

use lowtail_policy::FLOW_BANDS;
use serde::Serialize;

const BANDS: usize = FLOW_BANDS as usize;

/// Packets that have passed a tagger's uplinks, of all CPUs: `struct passed` of `bpf/flow.bpf.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets of each band: brief, small, large, long, bulk.
    pub packets: [u64; BANDS],
    /// Their bytes.
    pub bytes: [u64; BANDS],
    /// Packets that are no IP. These and the next two have passed as they were.
    pub not_ip: u64,
    /// Packets that say that they are IP, but are not, or not whole.
    pub odd: u64,
    /// Fragments.
    pub fragments: u64,
    /// Packets of a machine for which there was no place.
    pub untold: u64,
    /// Packets that have their priority, but not their DSCP.
    pub unwritten: u64,
    /// Packets whose machine was noted at its tap, in their mark.
    pub marked: u64,
}

impl Counts {
    /// Adds what one CPU has counted.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let word = |n: usize| {
            let word = bytes.get(8 * n..8 * n + 8).and_then(|word| word.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        for band in 0..BANDS {
            self.packets[band] += word(band);
            self.bytes[band] += word(BANDS + band);
        }
        self.not_ip += word(2 * BANDS);
        self.odd += word(2 * BANDS + 1);
        self.fragments += word(2 * BANDS + 2);
        self.untold += word(2 * BANDS + 3);
        self.unwritten += word(2 * BANDS + 4);
        self.marked += word(2 * BANDS + 5);
    }
}
