//! The same network in the simulator, measured the same way.

use lowtail_engine::{Duration, Hist, Time};
use lowtail_net::{Net, Pattern, TrafficConfig};

use super::measured::{NetworkMeasured, TrafficMeasured};

/// Runs `net`, which is at rest and has this `traffic`, for `duration`. What ends in a process that has waited for it takes
/// `receive` longer.
pub fn simulate(
    mut net: Net,
    traffic: &[TrafficConfig],
    receive: Duration,
    duration: Duration,
) -> NetworkMeasured {
    net.run(Time::ZERO + duration);
    let of = traffic.iter().zip(net.stats()).map(|(config, stats)| TrafficMeasured {
        name: config.name.clone(),
        latency: if ends_in_a_process(config) {
            later(&stats.latency, receive)
        } else {
            stats.latency.clone()
        },
        delivered_bytes: stats.delivered_bytes,
        counted: config.counted(duration),
    });
    // What a connection has counted is gone when another takes its place.
    let lasting = !traffic.iter().any(TrafficConfig::per_message);
    let resent = || net.flows().iter().map(|flow| flow.sender.counts.resent).sum();
    NetworkMeasured {
        traffic: of.collect(),
        dropped: net.stats().iter().map(|stats| stats.dropped_packets).sum(),
        resent: lasting.then(resent),
    }
}

/// Whether what is measured ends where something arrives; else an answer has come back, whose way has costs of its own.
fn ends_in_a_process(traffic: &TrafficConfig) -> bool {
    !matches!(traffic.pattern, Pattern::Ping { .. } | Pattern::Requests { .. })
}

/// All of it so much later.
fn later(latency: &Hist, by: Duration) -> Hist {
    let mut all = Hist::new();
    latency.counts().for_each(|(span, times)| all.record_n(span + by, times));
    all
}
