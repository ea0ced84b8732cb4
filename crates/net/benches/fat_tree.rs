//! What a packet costs, from TCP to TCP through a fat-tree.
//!
//! Permutation: each host sends 10 MB to another one, all links 10 Gbit/s, 1500-byte
//! packets, an event for each hop, an acknowledgement for each second segment. Budget: 2.5 us of
//! processor time per delivered packet on 128 hosts; at most 1.5 times that on 8,192, in less
//! than 8 GB (`--large`, 1 MB each). `--check` fails if that ratio is exceeded: of two
//! runs of one process, never of a time by itself. docs/explanation/performance.md has figures.
//!
//! Receivers have room for 128 KB (`--window BYTES` for another number): more than fits on a way
//! of 60 us, 75 KB, so that a flow alone fills its link, and two flows that share a link fit into
//! its buffer; one packet in a hundred or less is lost. With Linux' 3 MB all overrun the buffers
//! at their start, one packet in eight is lost, and what is measured is recovery.
//!
//! Processor time is read, not wall time, so that a busy machine disturbs little, and of several
//! runs (`--repeat N`) the least.

use lowtail_engine::{Duration, Rng, Time};
use lowtail_net::{
    Clos, End, EndConfig, LinkConfig, Net, NetConfig, Pattern, Port, Rate, Shape, TrafficConfig,
    traffic,
};

/// What a packet may cost more in the large network.
const RATIO_MOST: f64 = 1.5;

fn permutation(k: u32, bytes: u64, window: u64, seed: u64) -> Net {
    let shape = Shape::Clos(Clos::fat_tree(k));
    let hosts = shape.hosts();
    let link = LinkConfig {
        rate: Rate::from_mbit_s(10_000),
        delay: Duration::from_us(1),
        buffer_bytes: 200 * 1538,
        mark_bytes: None,
        loss_per_billion: 0,
    };
    // A host's own queue holds what its window allows.
    let own = LinkConfig { buffer_bytes: 1 << 24, ..link };
    let port = |place| match place {
        lowtail_net::Place::Host(_) => Port::plain(own),
        _ => Port::plain(link),
    };
    let ends: Vec<End> = (0..hosts).map(End).collect();
    let pairs = traffic::permutation(&ends, &mut Rng::new(seed, "permutation"));
    let mut traffic = TrafficConfig::new("transfer", pairs, Pattern::Transfer { bytes });
    traffic.tcp.receive_window = window;
    let config = NetConfig {
        shape,
        ends: (0..hosts).map(|host| EndConfig { host, attached: false }).collect(),
        traffic: vec![traffic],
        datagrams: Vec::new(),
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

/// Most memory that this process has had, in MB.
fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or_default() / 1024
}

fn flag(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

fn run(k: u32, bytes: u64, window: u64) -> f64 {
    let mut net = permutation(k, bytes, window, 1);
    let before = cpu_s();
    net.run(Time::ZERO + Duration::from_s(10));
    let spent = cpu_s() - before;
    let stats = &net.stats()[0];
    let packets = stats.delivered_bytes / u64::from(lowtail_net::packet::MSS_BYTES);
    let each = spent * 1e6 / packets as f64;
    println!(
        "k={k:<3} {:>6} hosts  {packets:>9} packets  {:>5.2} events/packet  {each:>6.3} us/packet  {:>5.2} M events/s  {:>6} lost  last {}  {} MB",
        net.flows().len(),
        net.events() as f64 / packets as f64,
        net.events() as f64 / spent / 1e6,
        stats.dropped,
        stats.latency.max(),
        memory_mb(),
    );
    if flag("--tcp") {
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
    let number = |name: &str, default: u64| {
        let value = std::env::args().skip_while(|arg| arg != name).nth(1);
        value.map_or(default, |value| value.parse().expect("a number"))
    };
    let window = number("--window", 1 << 17);
    let large = flag("--large") || flag("--check");
    // In turns, and the least of each: what disturbs can only add.
    let (mut least_small, mut least_large) = (f64::MAX, f64::MAX);
    for _ in 0..number("--repeat", if large { 3 } else { 1 }) {
        least_small = least_small.min(run(8, 10_000_000, window));
        if large {
            least_large = least_large.min(run(32, 1_000_000, window));
        }
    }
    if large {
        let ratio = least_large / least_small;
        println!("8,192 hosts cost {ratio:.2} times as much a packet");
        assert!(!flag("--check") || ratio < RATIO_MOST, "more than {RATIO_MOST} times");
    }
}
