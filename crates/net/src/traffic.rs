//! Traffic: who talks to whom, how much and when, and what is measured.

use lowtail_engine::{Distribution, Duration, Hist, Rng};

use crate::packet::End;
use crate::tcp;

/// How long a message is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// So many bytes.
    Fixed(u64),
    /// Pareto: a share of (least / x)^shape is longer than x; cut off at `most`.
    Pareto {
        /// The exponent, above zero.
        shape: f64,
        /// Least bytes.
        least: u64,
        /// Most bytes: what would be longer is drawn anew (a truncated distribution).
        most: u64,
    },
    /// Exponential with this mean, one byte at least.
    Exponential(u64),
}

impl Size {
    /// Draws one, 1 or more.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let bytes = match *self {
            Size::Fixed(bytes) => bytes,
            Size::Pareto { shape, least, most } => {
                // Inversion of the truncated distribution: one draw, whatever the limits.
                let tail = libm::pow(least as f64 / most as f64, shape);
                let u = rng.unit() * (1.0 - tail);
                (least as f64 / libm::pow(1.0 - u, 1.0 / shape)) as u64
            }
            Size::Exponential(mean) => (-libm::log1p(-rng.unit()) * mean as f64) as u64,
        };
        bytes.max(1)
    }

    /// The least that is drawn.
    pub fn least(&self) -> u64 {
        match *self {
            Size::Fixed(bytes) => bytes.max(1),
            Size::Pareto { least, .. } => least.max(1),
            Size::Exponential(_) => 1,
        }
    }

    /// The mean in bytes.
    pub fn mean(&self) -> f64 {
        match *self {
            Size::Fixed(bytes) => bytes as f64,
            Size::Exponential(mean) => mean as f64,
            Size::Pareto { shape, least, most } => {
                let (a, l, h) = (shape, least as f64, most as f64);
                let tail = libm::pow(l / h, a);
                if (a - 1.0).abs() < 1e-9 {
                    l * libm::log(h / l) / (1.0 - tail)
                } else {
                    l * a / (a - 1.0) * (1.0 - libm::pow(l / h, a - 1.0)) / (1.0 - tail)
                }
            }
        }
    }
}

/// What is sent, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// A TCP stream without an end.
    Bulk,
    /// One TCP stream of so many bytes, all there at the start.
    Transfer {
        /// Bytes.
        bytes: u64,
    },
    /// The transfers of a list ([`TrafficConfig::flows`]), each on a TCP connection of its own; measured from the
    /// start to the last byte there.
    Listed,
    /// Messages over TCP; measured from the write to the last byte there.
    Messages {
        /// Their size.
        bytes: Size,
        /// From one to the next.
        gap: Distribution,
        /// Each goes to another end, at random: one source for all pairs with the same first
        /// end. Else each pair has a source.
        anywhere: bool,
    },
    /// Requests and replies over TCP; measured at who asks.
    Requests {
        /// Bytes of a request.
        request: u64,
        /// Bytes of a reply.
        reply: Size,
        /// From one request to the next, or from a reply to the next request.
        gap: Distribution,
        /// The next request waits for the reply.
        closed: bool,
        /// Work at who is asked.
        service: Duration,
    },
    /// Echo requests, answered by the kernel.
    Ping {
        /// Payload.
        bytes: u32,
        /// From one to the next, or from an answer to the next.
        gap: Distribution,
        /// The next one waits for the answer.
        closed: bool,
    },
    /// Datagrams, whatever becomes of them; measured from end to end.
    Datagrams {
        /// Payload; each is one frame, however long.
        bytes: Size,
        /// From one to the next.
        gap: Distribution,
    },
}

/// How long a TCP connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Connection {
    /// It has been open since before the run, and knows the round trip of the network at rest.
    #[default]
    Open,
    /// A handshake opens it when it is first written to.
    New,
    /// A handshake opens it for a message, or a request, and it is closed after that.
    PerMessage,
}

/// A transfer of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedFlow {
    /// When it begins.
    pub start: Duration,
    /// Who sends.
    pub src: End,
    /// Who receives.
    pub dst: End,
    /// Bytes, 1 or more.
    pub bytes: u64,
    /// By which switches choose its way among equal ones; as they do by addresses and ports if absent.
    pub hash: Option<u64>,
}

/// Traffic of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficConfig {
    /// Its name; random streams belong to it.
    pub name: String,
    /// Who sends (or asks) and who receives.
    pub pairs: Vec<(End, End)>,
    /// What and when.
    pub pattern: Pattern,
    /// The transfers of [`Pattern::Listed`], in the order of their starts; `pairs` says nothing about them.
    pub flows: Vec<ListedFlow>,
    /// How long its connections live; of a list as [`Connection::PerMessage`] says.
    pub connection: Connection,
    /// How its TCP goes about things.
    pub tcp: tcp::TcpConfig,
    /// When it begins; each source a random part of its first gap later.
    pub start: Duration,
    /// Nothing is written after this.
    pub until: Duration,
    /// What is written or delivered before is not measured.
    pub warmup: Duration,
    /// So many are measured, then the traffic is done; 0 for no such end.
    pub count: u64,
    /// Messages are also measured by size: those up to each of these, ascending; the rest.
    pub bins: Vec<u64>,
    /// Packets tell how much of their message is left, for a queue that knows all.
    pub reveal: bool,
}

impl TrafficConfig {
    /// With Linux' TCP, from the start to the end, everything measured.
    pub fn new(name: &str, pairs: Vec<(End, End)>, pattern: Pattern) -> Self {
        TrafficConfig {
            name: name.to_string(),
            pairs,
            pattern,
            flows: Vec::new(),
            connection: Connection::default(),
            tcp: tcp::TcpConfig::default(),
            start: Duration::ZERO,
            until: Duration::MAX,
            warmup: Duration::ZERO,
            count: 0,
            bins: Vec::new(),
            reveal: false,
        }
    }

    /// Whether each message has a TCP connection of its own.
    #[inline]
    pub fn per_message(&self) -> bool {
        self.connection == Connection::PerMessage || matches!(self.pattern, Pattern::Listed)
    }

    /// Of a run that ended after `end`, how long what is delivered has counted.
    pub fn counted(&self, end: Duration) -> Duration {
        end.min(self.until).saturating_sub(self.warmup.max(self.start))
    }
}

/// Each end with another one, at random, all in one circle (Sattolo's shuffle): nobody is paired with
/// itself, and who receives, receives from one.
pub fn permutation(ends: &[End], rng: &mut Rng) -> Vec<(End, End)> {
    let mut to = ends.to_vec();
    for i in (1..to.len()).rev() {
        to.swap(i, rng.below(i as u64) as usize);
    }
    ends.iter().copied().zip(to).collect()
}

/// Figures of traffic of one kind.
#[derive(Debug, Clone)]
pub struct TrafficStats {
    /// What its pattern measures.
    pub latency: Hist,
    /// The same by size.
    pub bins: Vec<Hist>,
    /// Payload delivered since the warm-up.
    pub delivered_bytes: u64,
    /// Messages, requests or datagrams begun since the warm-up.
    pub begun: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// The same in packets, as queues hold them: a segment that was not cut up is one, however many frames it has.
    pub dropped_packets: u64,
    /// Of a list: for each of its transfers how long it took; `MAX`: it is not over.
    pub completions: Vec<Duration>,
}

impl TrafficStats {
    pub(crate) fn new(config: &TrafficConfig) -> Self {
        let bins = config.bins.len();
        TrafficStats {
            completions: vec![Duration::MAX; config.flows.len()],
            latency: Hist::new(),
            // Not copies of one: those would have no room of their own.
            bins: (0..if bins == 0 { 0 } else { bins + 1 }).map(|_| Hist::new()).collect(),
            delivered_bytes: 0,
            begun: 0,
            dropped: 0,
            dropped_packets: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of draws against the formula, with a shape whose variance is finite.
    #[test]
    fn sizes_have_their_mean() {
        let mut rng = Rng::new(3, "sizes");
        let pareto = Size::Pareto { shape: 1.2, least: 2_000, most: 1_000_000 };
        for size in [Size::Fixed(7), Size::Exponential(30_000), pareto] {
            let n = 400_000;
            let mean = (0..n).map(|_| size.draw(&mut rng) as f64).sum::<f64>() / f64::from(n);
            // The largest deviation is Pareto's, about 4 times its mean: 5 sigma are 3.2 %.
            assert!((mean / size.mean() - 1.0).abs() < 0.032, "{size:?} {mean} {}", size.mean());
        }
        let draws = (0..10_000).map(|_| pareto.draw(&mut rng));
        assert!(draws.into_iter().all(|bytes| (2_000..=1_000_000).contains(&bytes)));
    }
}
