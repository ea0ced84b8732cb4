//! Connections that are opened and closed, lists of transfers, and links that lose packets.

use lowtail_engine::{Distribution, Duration, Rng};
use lowtail_net::packet::{Kind, Packet};
use lowtail_net::queue::Cause;
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{
    Clos, Connection, End, LinkConfig, ListedFlow, Net, Pattern, Place, Port, Shape, Size,
    TrafficConfig,
};

use crate::bed::{
    FULL, Fate, MSS, Watch, at, close, fifo, link, ms, net, pass, path_both, tcp, us,
};

/// What opens a connection, on the wire: 20 and 40 bytes of headers, and what Ethernet adds.
const SYN: u64 = 60 + 38;

fn first(connection: Connection, pattern: Pattern) -> TrafficConfig {
    let pairs = vec![(End(0), End(1))];
    let tcp = tcp(Control::Cubic);
    TrafficConfig { connection, tcp, ..TrafficConfig::new("test", pairs, pattern) }
}

/// A segment over a new connection takes a round trip more than over an open one: SYN there and its answer
/// back, over two links each.
#[test]
fn a_handshake_takes_a_round_trip() {
    let took = |connection| {
        let traffic = first(connection, Pattern::Transfer { bytes: MSS });
        let port = |_| Port::plain(link(10, us(500)));
        let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic], 1);
        net.run(at(ms(100)));
        assert_eq!(net.stats()[0].latency.n(), 1);
        net.stats()[0].latency.max()
    };
    // At 10 Mbit/s a byte takes 800 ns.
    let open = ms(1) + Duration::from_ns(2 * 800 * FULL);
    let handshake = ms(2) + Duration::from_ns(4 * 800 * SYN);
    // That of the last acknowledgement leaves before the data: 52 bytes of headers.
    let last = Duration::from_ns(800 * (52 + 38));
    assert_eq!(took(Connection::Open), open);
    assert_eq!(took(Connection::New), open + handshake + last);
    assert_eq!(took(Connection::PerMessage), took(Connection::New));
}

/// Who is not answered asks again a second later (RFC 6298, 2.1), and as Linux does since 6.5, four times more at that
/// distance before it doubles (`tcp_syn_linear_timeouts`).
#[test]
fn a_lost_syn_costs_a_second() {
    for (lost, seconds) in [(1, 1), (3, 3), (5, 5), (6, 7), (7, 11)] {
        // Requests are lost at the one end, or answers at the other.
        for (host, kind) in [(0, Kind::Syn), (1, Kind::SynAck)] {
            let wire = link(1_000, us(10));
            let port = |place| {
                if place != Place::Host(host) {
                    return Port::plain(wire);
                }
                let mut left = lost;
                let rule = move |packet: &Packet, _| {
                    let hit = packet.kind == kind && left > 0;
                    left -= i32::from(hit);
                    if hit { Fate::Lose } else { Fate::Pass }
                };
                Port::queued(wire, Watch::new(fifo(), rule, None), None)
            };
            let traffic = first(Connection::New, Pattern::Transfer { bytes: MSS });
            let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic], 1);
            net.run(at(Duration::from_s(60)));
            let took = net.stats()[0].latency.max().as_s_f64();
            assert!((0.0..0.001).contains(&(took - f64::from(seconds))), "{lost} lost: {took} s");
        }
    }
}

/// 32 senders of 64 KB into one port that holds 100 packets: many lose all of a window, and their time-outs are the
/// least, 200 ms after a round trip that they know by the handshake, and not the second of who knows none. A
/// real 6.x has 206 ms.
#[test]
fn incast_waits_for_the_least_time_out() {
    let pairs: Vec<_> = (1..=32).map(|host| (End(host), End(0))).collect();
    let pattern = Pattern::Transfer { bytes: 65_536 };
    let traffic = |connection| TrafficConfig {
        connection,
        ..TrafficConfig::new("incast", pairs.clone(), pattern)
    };
    for connection in [Connection::Open, Connection::New] {
        let tight = LinkConfig { buffer_bytes: 100 * FULL, ..link(1_000, us(20)) };
        let port = |place| match place {
            Place::Host(_) => Port::plain(link(1_000, us(20))),
            _ => Port::plain(tight),
        };
        let mut net = net(Shape::Star { hosts: 33 }, port, vec![traffic(connection)], 1);
        net.run(at(Duration::from_s(10)));
        let latency = &net.stats()[0].latency;
        assert_eq!(latency.n(), 32);
        assert!(net.stats()[0].dropped > 0);
        // All of it takes 17 ms on the wire; who loses it twice waits twice as long again.
        assert!(latency.max() < ms(700), "{connection:?} {}", latency.max());
        assert!(latency.quantile(0.5) < ms(250), "{connection:?} {}", latency.quantile(0.5));
    }
}

/// Each message has a connection of its own: as many are opened and closed as there are messages. Their places are
/// used again a second after they are closed.
#[test]
fn a_message_can_have_a_connection_of_its_own() {
    let gap = Distribution::Exponential(ms(1));
    for pattern in [
        Pattern::Messages { bytes: Size::Exponential(3_000), gap, anywhere: false },
        Pattern::Requests {
            request: 100,
            reply: Size::Exponential(3_000),
            gap,
            closed: false,
            service: us(30),
        },
    ] {
        let traffic =
            TrafficConfig { until: Duration::from_s(10), ..first(Connection::PerMessage, pattern) };
        let (mut net, log) = path_both(1_000, us(100), traffic, pass, pass);
        net.run(at(Duration::from_s(20)));
        let stats = &net.stats()[0];
        assert!(stats.begun > 9_000);
        assert_eq!(stats.latency.n(), stats.begun);
        let log = log.lock().unwrap();
        let kind = |kind| log.iter().filter(|seen| seen.packet.kind == kind).count() as u64;
        assert_eq!([Kind::Syn, Kind::SynAck, Kind::Fin].map(kind), [stats.begun; 3]);
        assert_eq!(net.frames().dropped, [0; 4]);
        // Those of a second, two of each request: 1,000, and five standard deviations, and a model of the pair.
        let each = if matches!(pattern, Pattern::Requests { .. }) { 2 } else { 1 };
        let places = net.flows().len() / each;
        assert!((900..1_200).contains(&places), "{places}");
        // What is delivered counts for the pair.
        let delivered: Vec<u64> = net.delivered(0).filter(|&bytes| bytes > 0).collect();
        assert_eq!(delivered.len(), each);
        assert_eq!(delivered.iter().sum::<u64>(), stats.delivered_bytes);
    }
}

/// A list of transfers: each begins when it is to, over a connection of its own, and its completion is told.
#[test]
fn a_list_is_played() {
    let mut rng = Rng::new(7, "list");
    let mut start = Duration::ZERO;
    let flows: Vec<ListedFlow> = (0..2_000)
        .map(|_| {
            start += rng.uniform(Duration::ZERO, us(200));
            let src = End(rng.below(8) as u32);
            let dst = End((src.0 + 1 + rng.below(7) as u32) % 8);
            let bytes = 1 + rng.below(20_000);
            ListedFlow { start, src, dst, bytes, hash: None }
        })
        .collect();
    let traffic = TrafficConfig {
        flows: flows.clone(),
        ..TrafficConfig::new("list", vec![], Pattern::Listed)
    };
    let port = |_| Port::plain(link(1_000, us(5)));
    let mut net = net(Shape::Star { hosts: 8 }, port, vec![traffic], 1);
    net.run(at(Duration::from_s(10)));
    let stats = &net.stats()[0];
    assert_eq!((stats.latency.n(), stats.begun), (2_000, 2_000));
    assert_eq!(stats.delivered_bytes, flows.iter().map(|flow| flow.bytes).sum::<u64>());
    // SYN there and back, data there, without anything before them: at 8 ns a byte, 10 us a way.
    for (listed, took) in flows.iter().zip(&stats.completions) {
        let least = us(30) + Duration::from_ns(8 * listed.bytes);
        assert!(*took > least && *took < ms(50), "{listed:?} {took}");
    }
}

/// Transfers of one hash take one way through the tree, those of many take all.
#[test]
fn a_hash_chooses_the_way() {
    let cores = |hash: fn(u64) -> u64| {
        let flows = (0..64)
            .map(|i| ListedFlow {
                start: us(i * 100),
                src: End(0),
                dst: End(15),
                bytes: 10_000,
                hash: Some(hash(i)),
            })
            .collect();
        let traffic =
            TrafficConfig { flows, ..TrafficConfig::new("list", vec![], Pattern::Listed) };
        let shape = Shape::Clos(Clos::fat_tree(4));
        let mut net = net(shape, |_| Port::plain(link(1_000, us(1))), vec![traffic], 1);
        net.run(at(Duration::from_s(1)));
        assert_eq!(net.stats()[0].latency.n(), 64);
        let ports = net.ports().iter().zip(shape.places());
        let up = ports.filter(|(port, place)| *place == Place::Up && port.stats.packets > 0);
        up.count()
    };
    // From an edge switch to one of two aggregation switches, and from there to one of two core switches; and the same for acknowledgements.
    assert_eq!(cores(|_| 5), 4);
    assert_eq!(cores(|i| i), 12);
}

/// A link loses the share of packets that it is told to, whatever they are, and TCP mends it.
#[test]
fn a_link_loses_its_share() {
    let lossy = LinkConfig { loss_per_billion: 20_000_000, ..link(1_000, us(20)) };
    let port = |place| match place {
        Place::ToHost(1) => Port::plain(lossy),
        _ => Port::plain(link(1_000, us(20))),
    };
    let pattern = Pattern::Transfer { bytes: 40_000 * MSS };
    let traffic = TrafficConfig {
        tcp: TcpConfig { control: Control::Reno, ..TcpConfig::default() },
        ..first(Connection::New, pattern)
    };
    let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic], 1);
    net.run(at(Duration::from_s(1_000)));
    assert_eq!(net.stats()[0].latency.n(), 1);
    let lost = net.frames().dropped[Cause::Link as usize];
    let sent = net.ports()[3].stats.packets;
    // Of 40,800 packets 816 +- 28: five deviations are 17 %.
    close("share", lost as f64 / sent as f64, 0.02, 0.17);
    assert_eq!(net.frames().dropped.iter().sum::<u64>(), lost);
}

/// The same seed loses the same packets.
#[test]
fn losses_are_those_of_the_seed() {
    let run = |seed| -> (u64, Duration) {
        let lossy = LinkConfig { loss_per_billion: 10_000_000, ..link(1_000, us(20)) };
        let traffic = first(Connection::New, Pattern::Transfer { bytes: 3_000 * MSS });
        let mut net: Net =
            net(Shape::Star { hosts: 2 }, |_| Port::plain(lossy), vec![traffic], seed);
        net.run(at(Duration::from_s(100)));
        (net.frames().dropped[Cause::Link as usize], net.stats()[0].latency.max())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Echoes of a closed loop go on after one that is lost: each loss costs a second, as with `lab run --on kernel`.
#[test]
fn a_lost_echo_does_not_end_its_conversation() {
    let lossy = LinkConfig { loss_per_billion: 50_000_000, ..link(1_000, us(20)) };
    let ping = Pattern::Ping { bytes: 56, gap: Distribution::Fixed(ms(10)), closed: true };
    let traffic = TrafficConfig::new("ping", vec![(End(0), End(1))], ping);
    let mut net = net(Shape::Star { hosts: 2 }, |_| Port::plain(lossy), vec![traffic], 1);
    net.run(at(Duration::from_s(1_000)));
    let lost = net.frames().dropped[Cause::Link as usize];
    let answered = net.stats()[0].latency.n();
    // Four links, 5 % each: 18.5 % of the echoes find no answer.
    close("share", lost as f64 / (answered + lost) as f64, 0.185, 0.15);
    // And all of the time is used: 10.1 ms for one that is answered, 1,000 for one that is not.
    close("time", answered as f64 * 0.0101 + lost as f64, 1_000.0, 0.01);
}
