//! Long TCP flows: how much they get.

use lowtail_engine::{Distribution, Duration, Rng, Time};
use lowtail_net::packet::{Kind, Packet};
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{End, LinkConfig, Net, Pattern, Place, Port, Shape, Size, TrafficConfig};

use crate::bed::{
    FULL, Fate, MSS, Watch, at, close, fifo, link, ms, net, pass, path, tcp, traffic, us,
};

/// Payload per second of one flow while its network runs from `from` to `to`.
fn goodput(net: &mut Net, from: Duration, to: Duration) -> f64 {
    net.run(at(from));
    let before = net.flows()[0].receiver.next;
    net.run(at(to));
    (net.flows()[0].receiver.next - before) as f64 / (to - from).as_s_f64()
}

/// 1448 of 1538 bytes on the wire are payload: 941.48 Mbit/s of 1 Gbit/s. With a buffer of more
/// than the path holds (25 KB) no control leaves the link idle, whether it loses packets
/// (RFC 5681's half of window and buffer is more than the path) or not.
#[test]
fn one_flow_fills_the_link() {
    for control in [Control::Reno, Control::Cubic, Control::Dctcp] {
        for buffer_packets in [100, 1_000_000] {
            let edge = link(1_000, us(50));
            let tight = LinkConfig { buffer_bytes: buffer_packets * FULL, ..edge };
            let port = |place| match place {
                Place::Host(_) => Port::plain(link(10_000, us(50))),
                _ => Port::plain(tight),
            };
            let tcp = TcpConfig { control, ..TcpConfig::default() };
            let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic(Pattern::Bulk, tcp)], 1);
            let rate = goodput(&mut net, ms(500), ms(2_500)) * 8.0;
            close(&format!("{control:?} {buffer_packets}"), rate, 1e9 * 1448.0 / 1538.0, 0.005);
            let lost = net.stats()[0].dropped > 0;
            assert_eq!(lost, buffer_packets == 100, "the smaller buffer overflows");
        }
    }
}

/// A window a round trip. The round trip is that of a segment and of its acknowledgement: 10 ms,
/// and 1538 and 90 bytes on each of two links of 10 Gbit/s. A window of 40 segments, acknowledged two
/// by two, so that no acknowledgement is delayed; the first of two waits for the second.
#[test]
fn a_window_limits_the_rate() {
    let window = 40 * MSS;
    let tcp = TcpConfig { receive_window: window, ..tcp(Control::Reno) };
    let (mut net, _) = path(10_000, ms(10), traffic(Pattern::Bulk, tcp), pass);
    let rate = goodput(&mut net, ms(1_000), ms(11_000));
    let rtt = 0.010 + 2.0 * (FULL + 90) as f64 * 8.0 / 1e10;
    close("window a round trip", rate, window as f64 / rtt, 0.002);
}

/// Jain, Chiu and Hawe 1984: (sum x)^2 / (n sum x^2). Reno's flows with the same round trip get
/// the same (Chiu and Jain 1989).
#[test]
fn reno_shares_alike() {
    let n = 8;
    let port = |place| match place {
        Place::Host(_) | Place::ToHost(_) => Port::plain(link(1_000, us(2_500))),
        _ => Port::plain(LinkConfig { buffer_bytes: 160 * FULL, ..link(100, us(5_000)) }),
    };
    let bulk = |i: u32| TrafficConfig {
        tcp: tcp(Control::Reno),
        start: ms(137) * u64::from(i),
        warmup: Duration::from_s(20),
        ..TrafficConfig::new(&format!("{i}"), vec![(End(i), End(n + 1 + i))], Pattern::Bulk)
    };
    // Without anything random the same flow is hit for ever, and another one never (phase effects,
    // Floyd and Jacobson 1991): 4 % of the link are datagrams.
    let gap = Distribution::Exponential(us(1_000));
    let pattern = Pattern::Datagrams { bytes: Size::Exponential(434), gap };
    let noise = TrafficConfig::new("noise", vec![(End(n), End(2 * n + 1))], pattern);
    let traffic = (0..n).map(bulk).chain([noise]).collect();
    let mut net = net(Shape::Dumbbell { left: n + 1, right: n + 1 }, port, traffic, 1);
    net.run(at(Duration::from_s(120)));
    let x: Vec<f64> =
        net.stats()[..n as usize].iter().map(|stats| stats.delivered_bytes as f64).collect();
    let (sum, squares) = (x.iter().sum::<f64>(), x.iter().map(|x| x * x).sum::<f64>());
    let jain = sum * sum / (f64::from(n) * squares);
    println!("Jain {jain:.4}, {x:?}");
    assert!(jain > 0.95, "{jain}");
    // And together they fill the link, or that would be easy.
    close("all", sum * 8.0 / 100.0, 0.96e8 * 1448.0 / 1538.0, 0.01);
}

/// Payload per round trip and segment of Reno, each packet lost with probability `p`.
fn mathis(p: f64, ack_every: u8) -> f64 {
    let mut random = Rng::new(1, "loss");
    let rtt = ms(100);
    let lossy = move |packet: &Packet, _: Time| {
        let lost = packet.kind == Kind::Data && random.unit() < p;
        if lost { Fate::Lose } else { Fate::Pass }
    };
    let mut lossy = Some(lossy);
    // Fast enough for sending to take no time.
    let port = |place| match place {
        Place::Host(0) => {
            let queue = Watch::new(fifo(), lossy.take().unwrap(), None);
            Port::queued(link(100_000, rtt / 4), queue, None)
        }
        _ => Port::plain(link(100_000, rtt / 4)),
    };
    let tcp = TcpConfig { ack_every, ..tcp(Control::Reno) };
    let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic(Pattern::Bulk, tcp)], 1);
    // Some 500 losses: the length of a cycle between two of them varies by its own mean at most,
    // so that the mean window has a standard error below 5 %.
    let trips = 500.0 / p / (1.3 / p.sqrt());
    let to = Duration::from_us_f64((trips + 100.0) * rtt.as_us_f64());
    let rate = goodput(&mut net, rtt * 100, to);
    let counts = net.flows()[0].sender.counts;
    println!("p {p}: {} recoveries, {} time-outs", counts.recoveries, counts.timeouts);
    assert!(counts.recoveries > 250);
    // All that was lost was sent again, but for what is still unknown, and nothing else was: packets
    // keep their order.
    let lost = net.stats()[0].dropped;
    assert!(lost - counts.resent < 30 && counts.resent <= lost, "{counts:?}, {lost} lost");
    rate * rtt.as_s_f64() / MSS as f64
}

/// Mathis, Semke, Mahdavi and Ott 1997: a window of C / sqrt(p) segments, C = sqrt(3/2) = 1.22 with
/// a loss every 1 / p packets, and 1.31 where they are independent (Ott, Kemperman, Mathis 1996). They
/// give sqrt(3/4) for delayed acknowledgements, as TCP counted these then. Linux counts the
/// bytes that they acknowledge (RFC 3465; since 3.18 `tcp_cong_avoid_ai` has `acked`), and so do we: the
/// window grows by a segment a round trip either way.
#[test]
fn a_window_is_one_over_the_root_of_loss() {
    for ack_every in [1, 2] {
        let points: Vec<(f64, f64)> = [0.0005f64, 0.001, 0.002, 0.005, 0.01]
            .iter()
            .map(|&p| (p.ln(), mathis(p, ack_every).ln()))
            .collect();
        let n = points.len() as f64;
        let (mx, my) =
            points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
        let sxy: f64 = points.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
        let sxx: f64 = points.iter().map(|(x, _)| (x - mx).powi(2)).sum();
        let slope = sxy / sxx;
        for (x, y) in &points {
            println!("p {:.4}: C = {:.3}", x.exp(), y.exp() * (x / 2.0).exp());
        }
        assert!((-0.55..-0.45).contains(&slope), "exponent {slope}");
        close(&format!("C, acks of {ack_every}"), (my + mx / 2.0).exp(), 1.31, 0.2);
    }
}

/// RFC 9438, 4.2: after a loss the window is back at what it was after
/// K = cbrt(w_max (1 - beta) / C), with beta = 0.7 and C = 0.4. A path long and fat enough
/// for Reno's growth not to matter (0.53 segments a round trip, RFC 9438, 4.3).
#[test]
fn cubic_comes_back_after_k() {
    // In slow start 10 * (2^k - 1) segments have been sent before round k.
    let lost = 10 * 63 + 500;
    let rule = crate::bed::lose(vec![lost]);
    let (mut net, _) = path(10_000, ms(100), traffic(Pattern::Bulk, tcp(Control::Cubic)), rule);
    let mut before = 0;
    let limit = at(Duration::from_s(60));
    let sender = |net: &Net| net.flows()[0].sender.clone();
    while sender(&net).counts.recoveries == 0 {
        before = sender(&net).congestion.window;
        assert!(net.step(limit));
    }
    let w_max = before as f64 / MSS as f64;
    while sender(&net).state() != lowtail_net::tcp::sender::State::Open {
        assert!(net.step(limit));
    }
    let start = net.now();
    let left = sender(&net).congestion.window as f64 / before as f64;
    close("share of the window that is left", left, 0.7, 0.005);
    let k = (w_max * 0.3 / 0.4).cbrt();
    // The window follows W(t) = C (t - K)^3 + w_max; it may be a round trip late or early, in which it
    // grows by no more than 3 C K^2 times 0.1 s.
    let late = 3.0 * 0.4 * k * k * 0.1;
    let mut back = None;
    for i in 1..150 {
        let t = k * f64::from(i) / 100.0;
        net.run(start + Duration::from_us_f64(t * 1e6));
        let window = sender(&net).congestion.window as f64 / MSS as f64;
        let expected = 0.4 * (t - k).powi(3) + w_max;
        assert!((window - expected).abs() < late + 1.0, "{t} s: {window}, expected {expected}");
        if window > w_max - 1.0 && back.is_none() {
            back = Some(t);
        }
    }
    println!("w_max {w_max}");
    // It is flat there: a segment below it is cbrt(1 / C) = 1.4 s before it.
    close("K", back.expect("back") + (1.0f64 / 0.4).cbrt(), k, 0.1);
    assert_eq!(sender(&net).counts.timeouts, 0);
}
