//! One link is a queue: Poisson datagrams through it against the theory of M/M/1 and M/D/1.
//!
//! Each figure is the mean of independent replications, so that its standard error follows from
//! how they differ, however much successive packets depend on each other. It has to lie within 4
//! standard errors (16 replications: Student's t exceeds that 1 time in 860, and the seed is fixed), and
//! the standard error has to be small enough for that to say something.

use lowtail_engine::{Distribution, Duration, Hist};
use lowtail_net::{Net, Pattern, Place, Port, Shape, Size, TrafficConfig};

use crate::bed::{Watch, at, fifo, link, net, pass, traffic};

const REPLICATIONS: u64 = 16;
/// Mean payload: with it, headers are 0.05 %, and taken into account.
const MEAN: u64 = 125_000;
/// What a datagram has besides: IP and UDP 28, Ethernet 38.
const HEADERS: f64 = 66.0;
/// 10 Mbit/s.
const BYTES_PER_S: f64 = 1.25e6;

/// Mean time of service, and mean of its square over the square of its mean.
fn service(exponential: bool) -> (f64, f64) {
    let (m, h) = (MEAN as f64, HEADERS);
    let square = if exponential { (h + m).powi(2) + m * m } else { (h + m).powi(2) };
    ((h + m) / BYTES_PER_S, square / (h + m).powi(2))
}

/// A queue of 10 Mbit/s at a host, and a link at whose end a packet is at once (400 Gbit/s:
/// 1 / 40,000 of the time of service).
fn line(exponential: bool, load: f64, n: u64, seed: u64, port: impl Fn() -> Port) -> Net {
    let (mean_s, _) = service(exponential);
    let gap = Duration::from_us_f64(mean_s / load * 1e6);
    let bytes = if exponential { Size::Exponential(MEAN) } else { Size::Fixed(MEAN) };
    let pattern = Pattern::Datagrams { bytes, gap: Distribution::Exponential(gap) };
    // From empty to the steady state takes 1 / (1 - sqrt(load))^2 times of service (Abate and
    // Whitt 1987: the relaxation time): 380 at a load of 0.9.
    let warmup = Duration::from_us_f64(mean_s * 4000.0 * 1e6);
    let until = warmup + gap * n;
    let traffic =
        TrafficConfig { warmup, until, ..traffic(pattern, lowtail_net::tcp::TcpConfig::default()) };
    let ports = |place| match place {
        Place::Host(0) => port(),
        _ => Port::plain(link(400_000, Duration::ZERO)),
    };
    net(Shape::Star { hosts: 2 }, ports, vec![traffic], seed)
}

fn plain() -> Port {
    Port::plain(link(10, Duration::ZERO))
}

fn queued() -> Port {
    Port::queued(link(10, Duration::ZERO), fifo(), None)
}

fn measure(exponential: bool, load: f64, n: u64, seed: u64, port: impl Fn() -> Port) -> Hist {
    let mut net = line(exponential, load, n, seed, port);
    net.run(at(Duration::from_s(18_000_000)));
    assert!(net.pool().is_empty());
    net.stats()[0].latency.clone()
}

/// Mean and standard error of what replications came to.
fn error(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let square = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (square / n).sqrt())
}

#[track_caller]
fn agrees(what: &str, samples: &[f64], expected: f64, precision: f64) {
    let (mean, se) = error(samples);
    println!(
        "{what}: {mean:.5} s, theory {expected:.5} s, {:+.2} standard errors of {:.2} %",
        (mean - expected) / se,
        se / expected * 100.0
    );
    assert!(se < precision * expected, "{what}: a standard error of {se} is too much");
    assert!((mean - expected).abs() < 4.0 * se, "{what}: {mean} +- {se}, theory {expected}");
}

/// Packets in a replication, and the standard error that these allow (Whitt 1989: the variance of
/// the mean of n waiting times in M/M/1 is about load (2 + 5 load - 4 load^2 + load^3) /
/// (1 - load)^4 / n times of service squared; 16 * 60,000 at 0.9 make for 1.9 % of the mean).
const LOADS: [(f64, u64, f64); 4] =
    [(0.3, 10_000, 0.01), (0.6, 20_000, 0.015), (0.8, 40_000, 0.02), (0.9, 60_000, 0.035)];

fn against_theory(exponential: bool) {
    let (mean_s, square) = service(exponential);
    for (load, n, precision) in LOADS {
        let runs: Vec<Hist> = (0..REPLICATIONS)
            .map(|seed| {
                let plain = measure(exponential, load, n, seed, plain);
                let queued = measure(exponential, load, n, seed, queued);
                // To the picosecond: the mean is exact.
                assert_eq!(
                    (plain.n(), plain.mean(), plain.min(), plain.max()),
                    (queued.n(), queued.mean(), queued.min(), queued.max())
                );
                plain
            })
            .collect();
        let name = if exponential { "M/M/1" } else { "M/D/1" };
        // Pollaczek and Khinchine: waiting load / (1 - load) * E[S^2] / (2 E[S]), and service;
        // with an exponential service that is S / (1 - load).
        let wait = load / (1.0 - load) * square / 2.0 * mean_s;
        let means: Vec<f64> = runs.iter().map(|run| run.mean().as_s_f64()).collect();
        agrees(&format!("{name} {load} mean"), &means, wait + mean_s, precision);
        if !exponential {
            continue;
        }
        // The time in the system of M/M/1 is exponential itself. A histogram's quantile is up to
        // 0.1 % too high; half of that is taken off.
        for q in [0.5f64, 0.9, 0.99] {
            let expected = -(1.0 - q).ln() * (wait + mean_s) * 1.0005;
            let samples: Vec<f64> = runs.iter().map(|run| run.quantile(q).as_s_f64()).collect();
            agrees(&format!("{name} {load} p{}", q * 100.0), &samples, expected, 2.5 * precision);
        }
    }
}

#[test]
fn m_m_1() {
    against_theory(true);
}

#[test]
fn m_d_1() {
    against_theory(false);
}

/// Packet by packet: when each one has passed.
#[test]
fn plain_and_queued_ports_agree_to_the_picosecond() {
    let passed = |port: fn() -> Port| {
        let mut net = line(true, 0.9, 20_000, 7, port);
        let mut spans = Vec::new();
        let mut n = 0;
        while net.step(at(Duration::from_s(18_000_000))) {
            let latency = &net.stats()[0].latency;
            if latency.n() > n {
                n = latency.n();
                spans.push((net.now(), latency.max(), latency.mean()));
            }
        }
        spans
    };
    // A discipline that has nothing to say changes nothing either.
    fn watched() -> Port {
        let queue = Watch::new(fifo(), pass, None);
        Port::queued(link(10, Duration::ZERO), queue, None)
    }
    let first = passed(plain);
    assert!(first.len() > 15_000);
    assert!(first == passed(queued));
    assert!(first == passed(watched));
}
