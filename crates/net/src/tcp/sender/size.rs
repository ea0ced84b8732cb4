//! How much goes in one piece, and how much may wait in the own host.

use super::{MSS, Sender};
use crate::packet::MSS_BYTES;
use crate::tcp::TcpConfig;

/// Round trips below this (2^9 us) make for segments as long as can be (Linux `tcp_tso_rtt_log`).
const LONG_SEGMENT_RTT_SHIFT: u32 = 9;

impl Sender {
    /// Bytes of a segment if there is enough to send: as many as pass in a millisecond, but more
    /// over short ways, two segments at least, whole ones only (Linux `tcp_tso_autosize`).
    pub(super) fn goal(&self, config: &TcpConfig) -> u64 {
        let most = u64::from(config.segment_bytes.max(MSS_BYTES)) / MSS * MSS;
        if !config.autosize || self.srtt.is_zero() {
            return most;
        }
        let shift = (self.min_rtt.as_ns() / 1_000) >> LONG_SEGMENT_RTT_SHIFT;
        let short_way = most.checked_shr(shift.min(63) as u32).unwrap_or(0);
        ((self.per_ms() + short_way) / MSS * MSS).clamp((2 * MSS).min(most), most)
    }

    /// Bytes that go in a millisecond (1 / 1024 s) at the rate at which Linux would pace.
    fn per_ms(&self) -> u64 {
        self.congestion.pacing_bytes_per_s(self.srtt) / 1024
    }

    /// What may be in queues of the own host (TCP small queues, Linux `tcp_small_queue_check`):
    /// a millisecond's worth, two segments at least.
    pub(super) fn small_queue(&self, config: &TcpConfig) -> u64 {
        let least = 2 * self.goal(config);
        if self.srtt.is_zero() { least } else { least.max(self.per_ms()) }
    }
}
