//! Disciplines with TCP: what they do to a standing queue, and who has to wait for whom.

use lowtail_engine::{Distribution, Duration};
use lowtail_net::queue::Queue;
use lowtail_net::queue::codel::{Codel, CodelConfig};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{End, Net, Pattern, Place, Port, Shape, TrafficConfig};

use crate::bed::{FULL, Log, Seen, Watch, at, close, link, ms, net, pass, tcp, us};

const MBIT_S: u64 = 100;

/// Bulk flows by this TCP from hosts at the left, through `queue` at 100 Mbit/s and 20 ms there and back, and
/// a ping from one more host each 10 ms.
fn bottleneck(flows: u32, tcp: TcpConfig, queue: Box<dyn Queue>) -> (Net, Log) {
    let log = Log::default();
    let mut queue = Some(Watch::new(queue, pass, Some(log.clone())));
    let port = |place| match place {
        Place::Up => Port::queued(link(MBIT_S, ms(2)), queue.take().unwrap(), None),
        Place::Down => Port::plain(link(1_000, ms(2))),
        _ => Port::plain(link(1_000, ms(4))),
    };
    let n = flows + 1;
    let pairs = (0..flows).map(|i| (End(i), End(n + i))).collect();
    let bulk = TrafficConfig {
        tcp,
        warmup: Duration::from_s(10),
        ..TrafficConfig::new("bulk", pairs, Pattern::Bulk)
    };
    // Never two in one round of the others, since a queue that has just been empty waits its turn.
    let gap = Distribution::Uniform(ms(5), ms(15));
    let pattern = Pattern::Ping { bytes: 56, gap, closed: false };
    let ping = TrafficConfig {
        warmup: Duration::from_s(10),
        ..TrafficConfig::new("ping", vec![(End(flows), End(n + flows))], pattern)
    };
    let mut net = net(Shape::Dumbbell { left: n, right: n }, port, vec![bulk, ping], 1);
    net.run(at(Duration::from_s(40)));
    (net, log)
}

/// What has left the queue since the warm-up.
fn settled(log: &Log) -> Vec<Seen> {
    let log = log.lock().unwrap();
    log.iter().filter(|seen| seen.at > at(Duration::from_s(10))).copied().collect()
}

/// RFC 8289, 3: a standing queue is one that does not vanish within an interval. CoDel drops until the least
/// waiting time of an interval is below the target, 5 ms of 100 ms, and lets bursts be; TCP then
/// waits for about the target on average, where it would fill any buffer. Nichols and Jacobson 2012
/// report medians from a half to one and a half targets for bulk TCP at up to 100 Mbit/s.
#[test]
fn codel_brings_a_standing_queue_to_its_target() {
    for control in [Control::Reno, Control::Cubic] {
        let codel = Codel::new(CodelConfig::default(), 1_000);
        let (net, log) = bottleneck(4, tcp(control), Box::new(codel));
        let seen = settled(&log);
        let mean = seen.iter().map(|s| s.waited.as_s_f64()).sum::<f64>() / seen.len() as f64;
        let mut waits: Vec<Duration> = seen.iter().map(|s| s.waited).collect();
        waits.sort_unstable();
        let median = waits[waits.len() / 2];
        println!("{control:?} with CoDel: {:.2} ms, median {median}", mean * 1e3);
        assert!((0.001..0.010).contains(&mean), "{mean}");
        assert!(median > us(500) && median < us(7_500), "{median}");
        // Never does it stay above the target for long: an interval to notice, and then drops that
        // come faster and faster, the next ones after 100, 71, 58 ms, each of which halves a flow.
        let mut last = seen[0].at;
        let mut longest = Duration::ZERO;
        for s in seen.iter().filter(|s| s.waited < ms(5)) {
            longest = longest.max(s.at.since(last));
            last = s.at;
        }
        println!("above the target for {longest}");
        assert!(longest < ms(1_000), "{longest}");
        // It does not starve: nine tenths of the link at least.
        let rate = net.stats()[0].delivered_bytes as f64 * 8.0 / 30.0;
        close("rate", rate, 1e8 * 1448.0 / 1538.0, 0.1);
        // And without it: a buffer of 100 ms is full for most of the time.
        let fifo = Fifo::new(FifoLimit::Bytes(1_250_000), None);
        let (_, log) = bottleneck(4, tcp(control), Box::new(fifo));
        let seen = settled(&log);
        let without = seen.iter().map(|s| s.waited.as_s_f64()).sum::<f64>() / seen.len() as f64;
        println!("{control:?} without: {:.2} ms", without * 1e3);
        assert!(without > 0.04, "{without}");
    }
}

/// RFC 8290, 4: a flow that sends less than its share is always new, and goes before those with a queue. It waits
/// for the packet on the wire, not for their queues.
#[test]
fn fq_codel_lets_a_ping_pass() {
    let queue = FqCodel::new(FqCodelConfig::default());
    let (net, _) = bottleneck(4, tcp(Control::Cubic), Box::new(queue));
    let packet = link(MBIT_S, ms(0)).rate.span(FULL);
    let ping = &net.stats()[1].latency;
    // The wire takes 20 ms for the way, and 122 bytes at 100 Mbit/s and five times at 1 Gbit/s.
    let alone = ms(20) + Duration::from_ns(122 * 80 + 5 * 122 * 8);
    let (mean, most) = (ping.mean() - alone, ping.max() - alone);
    println!("ping waits {mean}, at most {most}; a packet takes {packet}");
    assert!(ping.n() > 2_000);
    // In nine of ten cases one of the others is new as well, at most.
    let p90 = ping.quantile(0.9) - alone;
    assert!(p90 < packet * 2, "{p90}");
    // Where all of the others happen to be new as well (their queues have just been empty), it is
    // after a packet of each.
    assert!(most < packet * 5 + us(20), "{most}");
    // Half a packet on average, where the wire is always busy (its residual time), and seldom more.
    close("mean", mean.as_s_f64(), packet.as_s_f64() / 2.0, 0.4);
    let shares: Vec<f64> = net.delivered(0).map(|bytes| bytes as f64).collect();
    let all: f64 = shares.iter().sum();
    for share in shares {
        close("share of four", share / all, 0.25, 0.02);
    }
}
