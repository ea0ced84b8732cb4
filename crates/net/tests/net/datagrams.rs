//! Datagram flows between machines without processors, against theory.

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_net::datagram::{Pace, RESEND_AFTER};
use lowtail_net::{
    DatagramConfig, DatagramFlow, End, EndConfig, LinkConfig, Net, NetConfig, Port, Rate, Shape,
};

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

/// A flow of packets with 1400 bytes of payload from machine 1 to machine 0.
fn flow(pace: Pace) -> DatagramConfig {
    DatagramConfig {
        src: End(1),
        dst: End(0),
        pace,
        start: Distribution::Fixed(us(0)),
        payload_bytes: 1400,
        reply_bytes: 56,
        service: us(0),
        src_process: 0,
        dst_process: 0,
        requests: u64::MAX,
        warmup: us(0),
        until: Duration::MAX,
    }
}

/// `flows` on a link of 1 Gbit/s and 20 us, for the span; each port has a buffer of so many bytes.
fn run(flows: Vec<DatagramConfig>, buffer_bytes: u64, span: Duration) -> Net {
    let shape = Shape::Links { links: 1 };
    let config = NetConfig {
        shape,
        ends: (0..2).map(|host| EndConfig { host, attached: false }).collect(),
        traffic: Vec::new(),
        datagrams: flows,
        local_delay: us(1),
    };
    let link = LinkConfig {
        rate: Rate::from_mbit_s(1000),
        delay: us(20),
        buffer_bytes,
        mark_bytes: None,
        loss_per_billion: 0,
    };
    let ports = shape.places().map(|_| Port::plain(link)).collect();
    let mut net = Net::new(&config, ports, 1);
    net.run(Time::ZERO + span);
    net
}

/// As fast as the wire takes them: 1466 bytes of time each, 85.27 k/s.
#[test]
fn an_open_flow_fills_the_wire() {
    let net = run(vec![flow(Pace::Open(None))], 1 << 40, Duration::from_ms(1000));
    let flow = &net.datagrams()[0];
    // The last ones are still on the wire: 20 us of 11.728 us each.
    let theory = (1e9_f64 / 8.0 / 1466.0).floor() as u64;
    assert!((theory - 3..=theory).contains(&flow.packets_arrived()), "{}", flow.packets_arrived());
    assert_eq!((flow.lost(), theory), (0, 85_266));
    assert_eq!(flow.delivered_bytes(), flow.packets_arrived() * 1400);
}

/// Two packets a round trip: both ways of 20 us, two frames there and an acknowledgement of 90
/// bytes on the wire back.
#[test]
fn a_window_goes_round() {
    let net = run(vec![flow(Pace::Window(2))], 1 << 40, Duration::from_ms(1000));
    let round_us = 40.0 + (2.0 * 1466.0 + 90.0) * 8.0 / 1000.0;
    let theory = 2.0 * 1e6 / round_us;
    let arrived = net.datagrams()[0].packets_arrived() as f64;
    assert!((arrived - theory).abs() <= 2.0, "{arrived}, {theory}");
}

/// A window of one: nothing makes up the pair, so each packet is acknowledged.
#[test]
fn a_window_of_one_is_acknowledged_packet_by_packet() {
    let net = run(vec![flow(Pace::Window(1))], 1 << 40, Duration::from_ms(100));
    let round_us = 40.0 + (1466.0 + 90.0) * 8.0 / 1000.0;
    let arrived = net.datagrams()[0].packets_arrived() as f64;
    assert!((arrived - 1e5 / round_us).abs() <= 1.0, "{arrived}");
}

/// A buffer for two packets loses two of four, which are sent again 200 ms later, once.
#[test]
fn what_is_lost_is_sent_again_after_200_ms() {
    let config = DatagramConfig { until: us(1), ..flow(Pace::Window(4)) };
    let after = |span| {
        let net = run(vec![config.clone()], 2 * 1466, span);
        let flow = &net.datagrams()[0];
        (flow.packets_sent(), flow.packets_arrived(), flow.packets_lost(), flow.packets_in_flight())
    };
    assert_eq!(after(Duration::from_ms(199)), (4, 2, 2, 2));
    // Nothing is sent any more behind `until`; the lost ones are not in flight any longer.
    assert_eq!(after(RESEND_AFTER + Duration::from_ms(1)), (4, 2, 2, 0));
    let config = DatagramConfig { until: Duration::from_ms(201), ..config };
    let net = run(vec![config], 2 * 1466, Duration::from_ms(500));
    assert!(net.datagrams()[0].packets_arrived() > 4);
}

/// A request of 122 bytes on the wire and its answer of as many: 20 us and 0.976 us each way.
#[test]
fn a_request_is_answered() {
    let requests = Pace::Requests(Distribution::Fixed(us(1000)));
    let config = DatagramConfig { payload_bytes: 56, requests: 50, ..flow(requests) };
    let net = run(vec![config], 1 << 40, Duration::from_ms(1000));
    let latency = net.datagrams()[0].latency();
    let theory = (us(20) + Duration::from_ns(976)) * 2;
    assert_eq!((latency.n(), latency.min()), (50, theory));
    assert_eq!(net.done(), Some(true));
}

/// Nothing vanishes: frames sent are received, dropped, or somewhere.
#[test]
fn frames_are_conserved() {
    let flows = (0..40).map(|i| match i % 4 {
        0 => flow(Pace::Window(1 + i)),
        1 => DatagramConfig { payload_bytes: 30_000, ..flow(Pace::Window(3)) },
        2 => flow(Pace::Open(Some(Distribution::Exponential(us(300))))),
        _ => flow(Pace::Requests(Distribution::Exponential(us(200)))),
    });
    let net = run(flows.collect(), 40_000, Duration::from_ms(900));
    let frames = net.frames();
    let somewhere: u64 = net.pool().iter().map(|packet| u64::from(packet.frames)).sum();
    let dropped: u64 = frames.dropped.iter().sum();
    assert_eq!(frames.sent, frames.received + dropped + somewhere);
    let lost = net.datagrams().iter().map(DatagramFlow::lost).sum::<u64>();
    assert!(dropped >= lost && lost > 100, "{dropped} frames of {lost} packets");
}
