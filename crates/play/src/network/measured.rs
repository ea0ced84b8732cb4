//! What a run of a network has measured, be it simulated or real.

use lowtail_engine::{Duration, Hist};

/// One run of a network.
#[derive(Debug, Clone)]
pub struct NetworkMeasured {
    /// Each traffic, in the order of the scenario.
    pub traffic: Vec<TrafficMeasured>,
    /// Packets that queues have dropped and links have lost, of all traffic, from the start on.
    pub dropped: u64,
    /// TCP segments sent again, of all traffic, from the start on; `None` where connections do not last.
    pub resent: Option<u64>,
}

/// What a traffic has got.
#[derive(Debug, Clone)]
pub struct TrafficMeasured {
    /// Its name.
    pub name: String,
    /// What its pattern measures, such as round trips.
    pub latency: Hist,
    /// Payload delivered since the warm-up.
    pub delivered_bytes: u64,
    /// How long that has counted.
    pub counted: Duration,
}

impl NetworkMeasured {
    /// Adds what another run of the same network has measured.
    pub fn merge(&mut self, other: &NetworkMeasured) {
        self.dropped += other.dropped;
        self.resent = self.resent.zip(other.resent).map(|(a, b)| a + b);
        for (traffic, other) in self.traffic.iter_mut().zip(&other.traffic) {
            traffic.latency.merge(&other.latency);
            traffic.delivered_bytes += other.delivered_bytes;
            traffic.counted += other.counted;
        }
    }
}

impl TrafficMeasured {
    /// Payload delivered, in bits per second.
    pub fn bits_per_second(&self) -> f64 {
        if self.counted.is_zero() {
            return 0.0;
        }
        self.delivered_bytes as f64 * 8.0 / self.counted.as_s_f64()
    }
}
