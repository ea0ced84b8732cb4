//! The same seed gives the same bits, another one others; and a flow keeps its way.

use lowtail_engine::{Distribution, Duration};

use lowtail_net::tcp::sender::Counts;
use lowtail_net::tcp::{Control, Receiver, TcpConfig};
use lowtail_net::{
    BlameConfig, Clos, End, LinkConfig, Net, Pattern, Place, Port, Shape, Size, TrafficConfig,
};

use crate::bed::{FULL, at, link, ms, net, us};

/// All at once in a fat-tree of 16 hosts.
fn tree(seed: u64, buffer_packets: u64) -> Net {
    let shape = Shape::Clos(Clos::fat_tree(4));
    let n = shape.hosts();
    let port = |place| match place {
        Place::Host(_) => Port::plain(link(1_000, us(1))),
        _ => Port::plain(LinkConfig { buffer_bytes: buffer_packets * FULL, ..link(1_000, us(1)) }),
    };
    let all = || {
        let pairs = (0..n).flat_map(|i| (0..n).filter(move |&j| j != i).map(move |j| (i, j)));
        pairs.map(|(i, j)| (End(i), End(j))).collect::<Vec<_>>()
    };
    let next = |by: u32| (0..n).map(|i| (End(i), End((i + by) % n))).collect::<Vec<_>>();
    let exponential = Distribution::Exponential;
    let pareto = Size::Pareto { shape: 1.2, least: 1_000, most: 1_000_000 };
    let messages = Pattern::Messages { bytes: pareto, gap: exponential(us(500)), anywhere: true };
    let requests = Pattern::Requests {
        request: 100,
        reply: Size::Exponential(20_000),
        gap: exponential(us(800)),
        closed: true,
        service: us(20),
    };
    let ping = Pattern::Ping { bytes: 56, gap: Distribution::Fixed(us(300)), closed: false };
    let datagrams = Pattern::Datagrams { bytes: Size::Fixed(900), gap: exponential(us(100)) };
    let reno = TcpConfig { control: Control::Reno, ..TcpConfig::default() };
    let traffic = |name: &str, pairs, pattern| TrafficConfig {
        tcp: reno.clone(),
        until: ms(60),
        bins: vec![10_000, 100_000],
        ..TrafficConfig::new(name, pairs, pattern)
    };
    let traffic = vec![
        traffic("messages", all(), messages),
        traffic("requests", next(5), requests),
        traffic("ping", next(3), ping),
        traffic("datagrams", next(11), datagrams),
    ];
    net(shape, port, traffic, seed)
}

/// All that is measured, in words: numbers are written so that they read back to the same bits.
fn figures(net: &Net) -> String {
    let ports: Vec<_> = net.ports().iter().map(|port| port.stats).collect();
    let flows: Vec<_> = net.flows().iter().map(|f| (f.delivered_bytes, &f.sender)).collect();
    let (stats, frames) = (net.stats(), net.frames());
    format!("{} {} {stats:?} {frames:?} {ports:?} {flows:?}", net.now(), net.events())
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let run = |seed, piece| {
        let mut net = tree(seed, 30);
        // However it is cut into pieces.
        for i in 1..=(80 / piece) {
            net.run(at(ms(piece) * i));
        }
        assert!(net.stats()[0].dropped > 0, "there are losses to agree on");
        figures(&net)
    };
    let first = run(1, 80);
    assert!(first == run(1, 80));
    assert!(first == run(1, 1));
    assert!(first != run(2, 80));
    // Not only ways: sources, too. (Poisson: these 9,600 are equal with probability 0.003.)
    let begun = |seed| {
        let mut net = tree(seed, 30);
        net.run(at(ms(60)));
        net.stats()[3].begun
    };
    assert_ne!(begun(1), begun(2));
}

/// Who looks whose bytes are in front of whose packets changes nothing; and what is seen is the same each time.
#[test]
fn blame_changes_nothing() {
    let run = |blame: bool| {
        let mut net = tree(1, 30);
        if blame {
            net.blame(BlameConfig { traffic: vec![0, 1, 2, 2], datagrams: Vec::new() });
        }
        net.run(at(ms(80)));
        let seen: Vec<_> =
            net.blamed().map(|(port, blame)| format!("{port:?} {blame:?}")).collect();
        (figures(&net), seen)
    };
    let (plain, blamed) = (run(false), run(true));
    assert!(plain.0 == blamed.0);
    assert_eq!((plain.1.len(), blamed.1.len()), (0, tree(1, 30).ports().len()));
    assert!(blamed.1 == run(true).1);
}

/// Whether what has come to `receiver` lies beyond a gap: an acknowledgement would say so (SACK).
fn sees_gap(receiver: &Receiver) -> bool {
    receiver.clone().acknowledge(&TcpConfig::default()).sack.is_some()
}

/// Each flow has one way through the tree (ECMP by hash), and ports are first in, first out: where nothing is
/// lost no receiver ever sees a gap, and nothing is sent twice but by probes of the tail, where queues
/// have become longer than a probe waits for.
#[test]
fn a_flow_keeps_its_order() {
    let mut net = tree(1, 1 << 30);
    let end = at(ms(40));
    let mut steps = 0u64;
    while net.step(end) {
        steps += 1;
        // A gap lasts for a few packets at least.
        if steps.is_multiple_of(3) {
            assert!(net.flows().iter().all(|flow| !sees_gap(&flow.receiver)));
        }
    }
    assert_eq!(net.frames().dropped, [0; 4]);
    let counts = net.flows().iter().map(|flow| flow.sender.counts);
    let by_probes = |counts: Counts| {
        counts.resent <= counts.probes && counts.recoveries == 0 && counts.timeouts == 0
    };
    assert!(counts.into_iter().all(by_probes));
    // And all ways are used: every port between switches has sent.
    assert!(net.ports().iter().all(|port| port.stats.packets > 0));
    assert!(net.now() > at(Duration::from_ms(39)));
}
