//! What a packet costs, from TCP to TCP through a fat-tree.
//!
//! Permutation: each machine sends 10 MB to another one, all links 10 Gbit/s, 1500-byte
//! packets, an event for each hop. Budget: 2.5 us of processor time per delivered packet on 128
//! machines, and at most 1.5 times that on 8,192 (`--large`; below 8 GB). The same workload takes htsim 5.6 us (NDP).
//!
//! Processor time is read, not wall time, so that a busy machine disturbs little.

use lowtail_engine::{Duration, Stream, Time};
use lowtail_net::{
    Clos, End, EndConfig, LinkConfig, Net, NetConfig, Pattern, Port, Rate, Shape, TrafficConfig,
};

fn permutation(k: u32, bytes: u64, seed: u64) -> Net {
    let shape = Shape::Clos(Clos::fat_tree(k));
    let hosts = shape.hosts();
    let link = LinkConfig {
        rate: Rate::from_mbit_s(10_000),
        delay: Duration::from_us(1),
        buffer_bytes: 200 * 1538,
        mark_bytes: None,
    };
    // A machine's own queue holds what its window allows.
    let own = LinkConfig { buffer_bytes: 1 << 24, ..link };
    let port = |place| match place {
        lowtail_net::Place::Host(_) => Port::plain(own),
        _ => Port::plain(link),
    };
    // Sattolo's shuffle: one cycle, so that nobody sends to itself.
    let mut to: Vec<u32> = (0..hosts).collect();
    let mut stream = Stream::new(seed, "permutation");
    for i in (1..hosts as usize).rev() {
        to.swap(i, stream.below(i as u64) as usize);
    }
    let pairs = to.iter().enumerate().map(|(i, &j)| (End(i as u32), End(j))).collect();
    let config = NetConfig {
        shape,
        ends: (0..hosts).map(|host| EndConfig { host, attached: false }).collect(),
        traffic: vec![TrafficConfig::new("transfer", pairs, Pattern::Transfer { bytes })],
        local_delay: Duration::from_us(1),
    };
    Net::new(&config, shape.places().map(port).collect(), seed)
}

/// Processor time of this process, in seconds.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or_default() / 1e9
}

fn run(k: u32, bytes: u64) -> f64 {
    let mut net = permutation(k, bytes, 1);
    let before = cpu_s();
    net.run(Time::ZERO + Duration::from_s(10));
    let spent = cpu_s() - before;
    let stats = &net.stats()[0];
    let packets = stats.delivered_bytes / u64::from(lowtail_net::packet::MSS_BYTES);
    let each = spent * 1e6 / packets as f64;
    println!(
        "k={k:<3} {:>6} machines  {packets:>9} packets  {:>5.2} events/packet  {each:>6.3} us/packet  {:>5.2} M events/s  {:>6} lost  last {}",
        net.flows().len(),
        net.events() as f64 / packets as f64,
        net.events() as f64 / spent / 1e6,
        stats.dropped,
        stats.latency.max(),
    );
    if std::env::args().any(|arg| arg == "--tcp") {
        let mut sum = [0u64; 4];
        for flow in net.flows() {
            let c = flow.sender.counts;
            for (s, n) in sum.iter_mut().zip([c.resent, c.recoveries, c.timeouts, c.probes]) {
                *s += n;
            }
        }
        println!(
            "resent, recoveries, timeouts, probes {sum:?}; p50 {} p90 {} p99 {}",
            stats.latency.quantile(0.5),
            stats.latency.quantile(0.9),
            stats.latency.quantile(0.99)
        );
    }
    assert_eq!(stats.latency.n() as usize, net.flows().len(), "all have come through");
    each
}

fn main() {
    let small = run(8, 10_000_000);
    if std::env::args().any(|arg| arg == "--large") {
        let large = run(32, 1_000_000);
        println!("8,192 machines cost {:.2} times as much a packet", large / small);
    }
}
