//! The same network in the simulator, measured the same way.

use lowtail_engine::{Duration, Time};
use lowtail_net::{Connection, Net, Pattern, TrafficConfig};

use super::measured::{NetworkMeasured, TrafficMeasured};

/// Runs `net`, which is at rest and has this `traffic`, for `duration`.
pub fn simulate(mut net: Net, traffic: &[TrafficConfig], duration: Duration) -> NetworkMeasured {
    net.run(Time::ZERO + duration);
    let of = traffic.iter().zip(net.stats()).map(|(config, stats)| TrafficMeasured {
        name: config.name.clone(),
        latency: stats.latency.clone(),
        delivered_bytes: stats.delivered_bytes,
        counted: config.counted(duration),
    });
    let resent = || net.flows().iter().map(|flow| flow.sender.counts.resent).sum();
    NetworkMeasured {
        traffic: of.collect(),
        dropped: net.stats().iter().map(|stats| stats.dropped).sum(),
        resent: traffic.iter().all(lasting).then(resent),
    }
}

/// Whether connections last for the run, so that what they count can be read at its end.
pub(super) fn lasting(traffic: &TrafficConfig) -> bool {
    traffic.connection != Connection::PerMessage && traffic.pattern != Pattern::Listed
}
