//! What hosts have sent to each other.

use std::collections::BTreeMap;

use lowtail_engine::{Duration, Time};

use super::Net;

impl Net {
    /// Payload delivered from host to host, in bits per second of the time in which it was
    /// counted; hosts without any are left out. In order of the hosts.
    pub fn matrix(&self) -> Vec<(u32, u32, f64)> {
        let end = self.queue.now().since(Time::ZERO);
        let mut sums = BTreeMap::new();
        for flow in self.flows.iter().filter(|flow| flow.delivered_bytes > 0) {
            let config = &self.configs[flow.traffic as usize];
            let span = config.counted(end);
            if span > Duration::ZERO {
                let [from, to] = [flow.src, flow.dst].map(|end| self.ends[end.index()].host);
                let bits = flow.delivered_bytes as f64 * 8.0 / span.as_s_f64();
                *sums.entry((from, to)).or_insert(0.0) += bits;
            }
        }
        sums.into_iter().map(|((from, to), bits)| (from, to, bits)).collect()
    }
}
