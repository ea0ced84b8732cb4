//! What a tagger has counted.

use lowtail_policy::FLOW_BANDS;
use serde::Serialize;

use super::layout::Passed;
use lowtail_kernel::shared::Shared;

const BANDS: usize = FLOW_BANDS as usize;

/// Packets that have passed a tagger's uplinks, of all CPUs: `struct passed` of `bpf/flow.bpf.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets of each band: brief, small, large, long, bulk.
    pub packets: [u64; BANDS],
    /// Their bytes.
    pub bytes: [u64; BANDS],
    /// Packets that are no IP. These and the next two have no band; each of their bytes has passed as it was.
    pub not_ip: u64,
    /// Packets that say that they are IP, but are not, or not whole.
    #[serde(rename = "malformed")]
    pub odd: u64,
    /// Fragments.
    pub fragments: u64,
    /// Packets of a VM for which there was no place.
    #[serde(rename = "untracked")]
    pub untold: u64,
    /// Packets that have their priority, but not their DSCP.
    #[serde(rename = "dscp_not_written")]
    pub unwritten: u64,
    /// Packets whose VM was noted at its tap, in their mark.
    pub marked: u64,
}

impl Counts {
    /// Adds what one CPU has counted.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let Some(passed) = Passed::from_bytes(bytes) else { return };
        for band in 0..BANDS {
            self.packets[band] += passed.packets[band];
            self.bytes[band] += passed.bytes[band];
        }
        self.not_ip += passed.not_ip;
        self.odd += passed.odd;
        self.fragments += passed.fragments;
        self.untold += passed.untold;
        self.unwritten += passed.unwritten;
        self.marked += passed.marked;
    }
}
