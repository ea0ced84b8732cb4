//! TCP and congestion marks: classic ECN and DCTCP.

use std::collections::HashSet;

use lowtail_engine::{Duration, Time};
use lowtail_net::packet::{Ecn, MSS_BYTES, Packet};
use lowtail_net::tcp::{Control, FLAG_ECHO, TcpConfig};
use lowtail_net::{End, LinkConfig, Pattern, Place, Port, Shape, TrafficConfig};

use crate::bed::{
    FULL, Fate, MSS, acks, at, close, data, link, lose, ms, net, path, tcp, traffic, us,
};

/// RFC 3168, 6.1.2: a mark is answered as a loss is, once a round trip, but nothing is lost.
#[test]
fn a_mark_halves_without_loss() {
    for (control, left) in [(Control::Reno, 0.5), (Control::Cubic, 0.7)] {
        // Ten marks in one window are one.
        let mut marks: Vec<u64> = (20..30).map(|n| n * MSS).collect();
        let rule = move |packet: &Packet, _| match marks.iter().position(|&n| n == packet.seq) {
            Some(i) => {
                marks.swap_remove(i);
                Fate::Mark
            }
            None => Fate::Pass,
        };
        let tcp = TcpConfig { ecn: true, initial_window: 100, ..tcp(control) };
        let (mut net, _) = path(10_000, ms(20), traffic(Pattern::Bulk, tcp), rule);
        let mut before = 0;
        loop {
            let window = net.flows()[0].sender.congestion.window;
            if window < before {
                break;
            }
            before = window;
            assert!(net.step(at(ms(100))));
        }
        net.run(at(ms(35)));
        let window = net.flows()[0].sender.congestion.window as f64;
        close(&format!("{control:?}"), window, before as f64 * left, 0.04);
        net.run(at(ms(1_000)));
        assert!(net.flows()[0].sender.congestion.window > before / 2);
        let counts = net.flows()[0].sender.counts;
        assert_eq!((counts.recoveries, counts.resent, net.stats()[0].dropped), (0, 0, 0));
    }
}

/// Alizadeh et al., SIGCOMM 2010, 3.3: n flows with windows W* = (C RTT + K) / n oscillate by
/// D = sqrt(2 W*) / 2 each, n D together; the longest queue is K + n; the share of marks,
/// and alpha, about sqrt(2 / W*). With K above C RTT / 7 the link is never idle. RFC 8257 is that
/// algorithm.
#[test]
fn dctcp_keeps_the_queue_at_its_threshold() {
    let (n, k) = (2u32, 65u64);
    let rate = 10_000;
    // 100 us there and back, without what sending takes.
    let mut right = 0;
    let tight =
        LinkConfig { mark_bytes: Some(k * FULL), buffer_bytes: 1_000 * FULL, ..link(rate, us(20)) };
    let port = |place| match place {
        Place::Up => Port::plain(tight),
        Place::Host(_) => {
            right += 1;
            Port::plain(link(40_000, us(10) + Duration::from_ns(400 * right)))
        }
        _ => Port::plain(link(40_000, us(20))),
    };
    let tcp = TcpConfig { ecn: true, ..tcp(Control::Dctcp) };
    let pairs: Vec<(End, End)> = (0..n).map(|i| (End(i), End(n + i))).collect();
    let traffic =
        TrafficConfig { tcp, warmup: ms(100), ..TrafficConfig::new("dctcp", pairs, Pattern::Bulk) };
    let shape = Shape::Dumbbell { left: n, right: n };
    let tight = shape.places().position(|place| place == Place::Up).unwrap();
    let mut net = net(shape, port, vec![traffic], 1);
    net.run(at(ms(100)));
    let (mut sum, mut most, mut least, mut alpha) = (0.0, 0.0f64, f64::MAX, 0.0);
    let samples = 40_000;
    for i in 0..samples {
        net.run(at(ms(100) + us(10) * i));
        let queue = net.ports()[tight].backlog(net.now()) as f64 / FULL as f64;
        (sum, most, least) = (sum + queue, most.max(queue), least.min(queue));
        alpha += net.flows()[0].sender.congestion.alpha();
    }
    let (mean, alpha) = (sum / samples as f64, alpha / samples as f64);
    let trip = 100e-6 + 4.0 * 1538.0 * 8.0 / 40e9;
    let star = (1e10 * trip / (FULL as f64 * 8.0) + k as f64) / f64::from(n);
    let swing = f64::from(n) * (2.0 * star).sqrt() / 2.0;
    println!("queue {least:.1} {mean:.1} {most:.1}, swing {swing:.1}, alpha {alpha:.3}");
    close("alpha", alpha, (2.0 / star).sqrt(), 0.35);
    // Between K + n and K + n - swing; acknowledgements two by two add bursts of two for each flow.
    assert!(most < (k + u64::from(3 * n)) as f64, "{most}");
    assert!(mean > k as f64 - swing && mean < (k + u64::from(n)) as f64, "{mean}");
    assert!(least > 0.0, "idle");
    assert_eq!(net.stats()[0].dropped, 0);
    let rate = net.stats()[0].delivered_bytes as f64 * 8.0 / 0.4;
    close("rate", rate, 1e10 * f64::from(MSS_BYTES) / FULL as f64, 0.002);
}

/// RFC 8257, 3.2: when the marks change, what came before is acknowledged first, so that as many bytes are echoed as
/// were marked, though two segments make an acknowledgement.
#[test]
fn dctcp_echoes_each_mark() {
    let rule = |packet: &Packet, _: Time| {
        // Of the pairs that are acknowledged together one has both marked, one its second only.
        if matches!(packet.seq / MSS % 8, 2 | 3 | 5) { Fate::Mark } else { Fate::Pass }
    };
    let tcp = TcpConfig { ecn: true, initial_window: 100, ..tcp(Control::Dctcp) };
    let flow = traffic(Pattern::Transfer { bytes: 800 * MSS }, tcp);
    let (mut net, log) = path(10_000, ms(20), flow, rule);
    net.run(at(ms(10_000)));
    let (mut before, mut echoed) = (0, 0);
    for ack in acks(&log).iter().map(|seen| seen.packet) {
        if ack.flags & FLAG_ECHO != 0 {
            echoed += ack.ack - before;
        }
        before = ack.ack;
    }
    assert_eq!((before, echoed), (800 * MSS, 300 * MSS));
}

/// RFC 3168, 6.1.5: what is sent again is not capable, or a loss of it would not be noticed as one where
/// queues mark.
#[test]
fn what_is_sent_again_is_not_capable() {
    let tcp = TcpConfig { ecn: true, initial_window: 100, ..tcp(Control::Cubic) };
    let flow = traffic(Pattern::Transfer { bytes: 200 * MSS }, tcp);
    let (mut net, log) = path(10_000, ms(20), flow, lose(vec![20, 60, 60, 199]));
    net.run(at(ms(10_000)));
    assert_eq!(net.stats()[0].latency.n(), 1);
    let mut seen = HashSet::new();
    for packet in data(&log).iter().map(|seen| seen.packet) {
        let first = seen.insert(packet.seq);
        assert_eq!(packet.ecn, if first { Ecn::Capable } else { Ecn::Not });
    }
}
