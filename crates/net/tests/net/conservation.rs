//! Whatever the network and its traffic: each frame sent is received, dropped or inside; and in
//! the end all that TCP was given is there.

use lowtail_engine::{Distribution, Duration, Rng};
use lowtail_net::packet::MSS_BYTES;
use lowtail_net::queue::Queue;
use lowtail_net::queue::cake::{Cake, CakeConfig};
use lowtail_net::queue::codel::{Codel, CodelConfig, DC_INTERVAL, DC_TARGET};
use lowtail_net::queue::drr::{Drr, DrrConfig, DrrKey};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::prio::Prio;
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::queue::split::Split;
use lowtail_net::queue::tbf::Tbf;
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{
    Clos, Connection, End, LinkConfig, Net, NicConfig, Pattern, Place, Port, Rate, Shape, Size,
    TrafficConfig,
};

use crate::bed::{Fate, Watch, at, ms, net, us};

const SEEDS: u64 = 200;

pub(crate) fn pick<T: Copy>(random: &mut Rng, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

pub(crate) fn queue(random: &mut Rng) -> Box<dyn Queue> {
    let limit = FifoLimit::Bytes(pick(random, &[20_000, 100_000, 1_000_000]));
    let fifo = || Box::new(Fifo::new(limit, Some(30_000)));
    let codel = pick(
        random,
        &[
            CodelConfig::default(),
            CodelConfig {
                target: DC_TARGET,
                interval: DC_INTERVAL,
                ecn: true,
                ..CodelConfig::default()
            },
        ],
    );
    let rate = Rate::from_mbit_s(80);
    let memory_limit = 300_000;
    match random.below(10) {
        0 => fifo(),
        1 => Box::new(Codel::new(codel, pick(random, &[20, 1_000]))),
        2 => Box::new(FqCodel::new(FqCodelConfig {
            flows: pick(random, &[2, 1024]),
            memory_limit,
            codel,
            ..Default::default()
        })),
        3 => Box::new(Prio::new(vec![fifo(), fifo()])),
        4 => Box::new(Split::new(pick(random, &[0, 4 * MSS_BYTES]), fifo())),
        5 => Box::new(Drr::new(DrrConfig {
            queues: 3,
            limit_bytes: 150_000,
            ..DrrConfig::new(pick(random, &[DrrKey::Flow, DrrKey::Pair, DrrKey::Source]))
        })),
        6 => Box::new(SmallFirstQueue::new(SmallFirstQueueConfig {
            codel: pick(random, &[None, Some(codel)]),
            limit_bytes: 150_000,
            ..Default::default()
        })),
        7 => Box::new(Tbf::new(rate, 70_000, fifo())),
        8 => Box::new(Cake::new(CakeConfig {
            rate: pick(random, &[None, Some(rate)]),
            split_gso: random.below(2) == 0,
            memory_limit: Some(memory_limit),
            ..Default::default()
        })),
        _ => {
            // Loses one packet in a hundred, of any kind.
            let mut loss = random.clone();
            Watch::new(
                fifo(),
                move |_, _| if loss.below(100) == 0 { Fate::Lose } else { Fate::Pass },
                None,
            )
        }
    }
}

fn port(random: &mut Rng, place: Place) -> Port {
    let link = LinkConfig {
        rate: Rate::from_mbit_s(pick(random, &[100, 1_000, 10_000])),
        delay: pick(random, &[Duration::ZERO, us(1), us(300)]),
        buffer_bytes: pick(random, &[70_000, 300_000]),
        mark_bytes: pick(random, &[None, Some(30_000)]),
        loss_per_billion: pick(random, &[0, 0, 20_000_000]),
    };
    if random.below(2) == 0 {
        return Port::plain(link);
    }
    let nic = NicConfig { ring: 64, bql: random.below(2) == 0, whole: random.below(2) == 0 };
    let nic = matches!(place, Place::Host(_)).then_some(nic).filter(|_| random.below(2) == 0);
    Port::queued(link, queue(random), nic)
}

fn random_tcp(random: &mut Rng) -> TcpConfig {
    let control = pick(random, &[Control::Reno, Control::Cubic, Control::Dctcp]);
    TcpConfig {
        control,
        ecn: control == Control::Dctcp || random.below(2) == 0,
        segment_bytes: pick(random, &[0, 14_480, 65_160]),
        small_queues: random.below(2) == 0,
        tail_probe: random.below(4) > 0,
        idle_restart: random.below(2) == 0,
        ack_every: pick(random, &[1, 2]),
        receive_window: pick(random, &[20 * u64::from(MSS_BYTES), 3_145_728]),
        ..TcpConfig::default()
    }
}

fn random_traffic(random: &mut Rng, hosts: u32, name: &str) -> TrafficConfig {
    let mut gap = |low, high| {
        let mean = random.uniform(us(low), us(high));
        pick(random, &[Distribution::Exponential(mean), Distribution::Fixed(mean)])
    };
    let (often, seldom) = (gap(50, 500), gap(1_000, 10_000));
    let sizes = [
        Size::Fixed(1),
        Size::Fixed(200_000),
        Size::Exponential(30_000),
        Size::Pareto { shape: 1.1, least: 500, most: 1_000_000 },
    ];
    let bytes = pick(random, &sizes);
    let (anywhere, closed) = (random.below(2) == 0, random.below(2) == 0);
    let pattern = match random.below(5) {
        0 => Pattern::Transfer { bytes: 1 + random.below(3_000_000) },
        1 => Pattern::Messages { bytes, gap: seldom, anywhere },
        2 => Pattern::Requests {
            request: 1 + random.below(5_000),
            reply: bytes,
            gap: seldom,
            closed,
            service: us(random.below(100)),
        },
        3 => Pattern::Ping { bytes: 56, gap: often, closed },
        _ => Pattern::Datagrams { bytes: Size::Fixed(1 + random.below(1_472)), gap: often },
    };
    // Also within a host.
    let mut end = || End(random.below(u64::from(hosts)) as u32);
    let pairs = (0..6).map(|_| (end(), end())).collect();
    let tcp = random_tcp(random);
    let all = [Connection::Open, Connection::New, Connection::PerMessage];
    TrafficConfig {
        tcp,
        connection: pick(random, &all),
        start: random.uniform(Duration::ZERO, ms(5)),
        until: ms(40),
        reveal: random.below(2) == 0,
        ..TrafficConfig::new(name, pairs, pattern)
    }
}

/// With the patterns of its traffic.
fn build(seed: u64) -> (Net, Vec<Pattern>) {
    let mut random = Rng::new(seed, "network");
    let clos = Clos { pods: 2, edges: 2, aggregations: 2, cores: 4, hosts: 2 };
    let shapes = [
        Shape::Star { hosts: 5 },
        Shape::Dumbbell { left: 3, right: 2 },
        Shape::Clos(clos),
        Shape::Clos(Clos::fat_tree(4)),
    ];
    let shape = pick(&mut random, &shapes);
    let traffic: Vec<_> = (0..1 + random.below(4))
        .map(|i| random_traffic(&mut random, shape.hosts(), &format!("{i}")))
        .collect();
    let patterns = traffic.iter().map(|traffic| traffic.pattern).collect();
    (net(shape, |place| port(&mut random, place), traffic, seed), patterns)
}

fn conserved(net: &Net) {
    let frames = net.frames();
    let inside: u64 = net.pool().iter().map(|packet| u64::from(packet.frames)).sum();
    let dropped: u64 = frames.dropped.iter().sum();
    assert_eq!(frames.sent, frames.received + dropped + inside, "{frames:?}, {inside} inside");
    // What was dropped was dropped for somebody.
    assert_eq!(dropped, net.stats().iter().map(|stats| stats.dropped).sum::<u64>());
    // And what is in the pool is in a port, or on its way within a host.
    let packets: usize = net.ports().iter().map(Port::packets).sum();
    assert!(packets <= net.pool().len(), "{packets} in ports, {} in all", net.pool().len());
}

/// Returns frames dropped.
fn run(seed: u64) -> u64 {
    let (mut net, patterns) = build(seed);
    for i in 1..=50 {
        net.run(at(ms(i)));
        conserved(&net);
    }
    // Time-outs are backed off to 120 s at most.
    net.run(at(Duration::from_s(3_600)));
    conserved(&net);
    assert!(net.pool().is_empty(), "{} packets are left", net.pool().len());
    assert_eq!(net.next_time(), None, "nothing is left to do");
    for flow in net.flows() {
        let (sent, there) = (flow.sender.end, flow.receiver.next);
        assert_eq!(sent, there, "{:?} to {:?}", flow.src, flow.dst);
        assert_eq!((flow.sender.una, flow.sender.flight(), flow.sender.qdisc_bytes), (sent, 0, 0));
    }
    for (pattern, stats) in patterns.iter().zip(net.stats()) {
        assert!(stats.latency.n() <= stats.begun);
        if !matches!(pattern, Pattern::Ping { .. } | Pattern::Datagrams { .. }) {
            assert_eq!(stats.latency.n(), stats.begun, "{pattern:?}");
        }
    }
    net.frames().dropped.iter().sum()
}

#[test]
fn frames_are_conserved_and_messages_complete() {
    let one: Option<u64> = std::env::var("LOWTAIL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..SEEDS, |seed| seed..seed + 1);
    let mut dropped = 0;
    for seed in seeds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(n) => dropped += u64::from(n > 0),
            Err(panic) => {
                println!(
                    "repeat: LOWTAIL_SEED={seed} cargo test -p lowtail-net --test net frames_are"
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(one.is_some() || dropped > SEEDS / 2, "without losses there is little to see");
}
