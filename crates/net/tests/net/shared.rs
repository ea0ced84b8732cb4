//! Buffers that ports share.

use lowtail_engine::Distribution;
use lowtail_net::net::SharedConfig;
use lowtail_net::traffic::TrafficConfig;
use lowtail_net::{End, Pattern, Place, Port, Shape, Size};

use super::bed::{at, link, ms, net, us};

const BYTES: u64 = 300_000;

/// Backlogs, after 100 ms, of `busy` ports of a switch to each of which two hosts send 1.8
/// Gbit/s together.
fn backlogs(busy: u32, quarters: u32) -> Vec<u64> {
    let shape = Shape::Star { hosts: 3 * busy + 1 };
    let pairs =
        (0..busy).flat_map(|i| [(End(3 * i), End(3 * i + 2)), (End(3 * i + 1), End(3 * i + 2))]);
    // 1538 bytes of the wire in 13.67 us.
    let gap = Distribution::Exponential(us(13) + us(2) / 3);
    let pattern = Pattern::Datagrams { bytes: Size::Fixed(1472), gap };
    let traffic = TrafficConfig::new("test", pairs.collect(), pattern);
    let port = |_: Place| Port::plain(link(1000, us(1)));
    let mut net = net(shape, port, vec![traffic], 1);
    net.share(SharedConfig { bytes: BYTES, quarters }, &shape);
    net.run(at(ms(100)));
    let now = net.now();
    assert!(net.stats()[0].dropped > 0);
    let to = |i: u32| net.ports()[(3 * busy + 1 + 3 * i + 2) as usize].backlog(now);
    (0..busy).map(to).collect()
}

/// Choudhury and Hahne 1998: with n overloaded ports that may each hold `a` times what is free, each
/// holds a B / (1 + n a), and B / (1 + n a) stays free for others. Packets come one by one, so that a
/// queue is up to two of them short of that; what others lack counts for `a` times as much.
#[test]
fn overloaded_ports_hold_what_theory_says() {
    for (busy, quarters) in [(1, 4), (2, 4), (5, 4), (1, 1), (3, 8)] {
        let (n, a) = (f64::from(busy), f64::from(quarters) / 4.0);
        let expected = a * BYTES as f64 / (1.0 + n * a);
        for held in backlogs(busy, quarters) {
            let off = held as f64 - expected;
            let slack = 1538.0 * (2.0 + 2.0 * n * a);
            assert!(off.abs() <= slack, "{busy} ports, {a} times: {held}, not {expected}");
        }
    }
}
