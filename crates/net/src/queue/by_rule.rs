//! Tags by the rule of `policy/flow.h`: what a pair has sent lately decides how urgent it is.

use lowtail_engine::Time;
use lowtail_policy::{FLOW_BANDS, FlowParams, FlowTable};

use super::chain::ports;
use super::tag::Classify;
use crate::packet::Packet;

/// How many classes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bands {
    /// Small (0) and large (1), as in "Small is Better" (SoCC'13).
    Two,
    /// All that the rule tells apart.
    All,
}

impl Bands {
    /// The classes.
    pub fn classes(self) -> u8 {
        match self {
            Bands::Two => 2,
            Bands::All => FLOW_BANDS,
        }
    }
}

/// Classifies by flow and VM, with two bands by pair of ends and VM; every end is a VM.
pub struct ByRule {
    table: FlowTable,
    bands: Bands,
}

impl std::fmt::Debug for ByRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByRule").field("bands", &self.bands).finish_non_exhaustive()
    }
}

impl ByRule {
    /// With room for `sets` times five pairs of `ends` VMs.
    ///
    /// # Errors
    /// If parameters are outside of their ranges.
    pub fn new(
        params: FlowParams,
        bands: Bands,
        sets: u32,
        ends: u32,
        seed: u64,
    ) -> Result<Self, String> {
        let table = FlowTable::new(params, sets, ends, seed)?;
        Ok(ByRule { table, bands })
    }
}

impl Classify for ByRule {
    fn classify(&mut self, packet: &Packet, now: Time) -> u8 {
        let (src, dst) = (u64::from(packet.src.0), u64::from(packet.dst.0));
        // "Small is Better" knows pairs of VMs.
        let ports = match self.bands {
            Bands::Two => 0,
            Bands::All => ports(packet),
        };
        let bytes = packet.bytes();
        let verdict = self.table.classify_flow(packet.src.0, (src, dst, ports), bytes, now.as_ns());
        match self.bands {
            Bands::Two => u8::from(!verdict.small),
            Bands::All => verdict.class,
        }
    }
}
