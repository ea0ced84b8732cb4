//! What a packet and its user take on a host that does nothing else.

use lowtail_engine::{Distribution, Duration};
use lowtail_kernel::Error;
use lowtail_net::{Connection, End, Pattern, Shape, Size, TrafficConfig};

use super::plan::NetworkPlan;
use super::run::run;

/// How long each is measured.
const MEASURED: Duration = Duration::from_s(1);
/// From one to the next.
const GAP: Distribution = Distribution::Fixed(Duration::from_ms(5));
/// The least delay of a link, each way over two of them, which is not the host's.
const DELAYS: Duration = Duration::from_us(4);

/// What a host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkCosts {
    /// Of each link that an echo request passes: two there, two back.
    pub link: Duration,
    /// Of a process that answers, beyond what an echo takes.
    pub process: Duration,
}

/// Measures both between two hosts at one switch, with nothing beside and no queue that limits.
///
/// # Errors
/// As [`run()`].
pub fn calibrate() -> Result<NetworkCosts, Error> {
    let delay = format!("root handle 1: netem limit 1000 delay {}us", DELAYS.as_us_f64() / 2.0);
    let traffic = |name: &str, pattern| TrafficConfig {
        connection: Connection::Open,
        ..TrafficConfig::new(name, vec![(End(0), End(1))], pattern)
    };
    let ping = traffic("ping", Pattern::Ping { bytes: 100, gap: GAP, closed: true });
    let ask = Pattern::Requests {
        request: 100,
        reply: Size::Fixed(100),
        gap: GAP,
        closed: true,
        service: Duration::ZERO,
    };
    let ask = traffic("ask", ask);
    let median = |traffic: TrafficConfig| -> Result<Duration, Error> {
        let plan = NetworkPlan {
            shape: Shape::Star { hosts: 2 },
            host: Vec::new(),
            to_host: vec![delay.clone()],
            between: Vec::new(),
            segment_bytes: 0,
            ecn: false,
            receive_window: 3_000_000,
            idle_restart: false,
            tagged: None,
            ends: vec![0, 1],
            traffic: vec![traffic],
        };
        Ok(run(&plan, MEASURED, 1)?.traffic[0].latency.quantile(0.5))
    };
    let (ping, ask) = (median(ping)?, median(ask)?);
    Ok(NetworkCosts { link: ping.saturating_sub(DELAYS) / 4, process: ask.saturating_sub(ping) })
}
