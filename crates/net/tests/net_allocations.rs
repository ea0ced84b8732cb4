//! No allocation per packet: once a network has grown to its size, it allocates nothing, whatever
//! its ports and its traffic.

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_net::queue::Queue;
use lowtail_net::queue::codel::{CodelConfig, DC_INTERVAL, DC_TARGET};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{
    BlameConfig, Clos, End, EndConfig, LinkConfig, Net, NetConfig, NicConfig, Pattern, Place, Port,
    Rate, Shape, Size, TrafficConfig,
};
use lowtail_testkit::allocations::{self, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

/// A fat-tree of 16 hosts: bulk flows that lose packets, messages, requests, pings, datagrams.
fn tree(queued: bool, control: Control) -> Net {
    let shape = Shape::Clos(Clos::fat_tree(4));
    let n = shape.hosts();
    let link = LinkConfig {
        rate: Rate::from_mbit_s(10_000),
        delay: Duration::from_us(1),
        buffer_bytes: 45_000,
        mark_bytes: Some(30_000),
        loss_per_billion: 0,
    };
    let codel = CodelConfig {
        target: DC_TARGET,
        interval: DC_INTERVAL,
        ecn: true,
        ..CodelConfig::default()
    };
    let fq = || FqCodel::new(FqCodelConfig { flows: 64, codel, ..Default::default() });
    let nic = NicConfig { ring: 256, bql: true, whole: false };
    let port = |place| match place {
        Place::Host(_) if queued => Port::queued(link, Box::new(fq()), Some(nic)),
        _ if queued => {
            let fifo: Box<dyn Queue> = Box::new(Fifo::new(FifoLimit::Bytes(45_000), Some(30_000)));
            Port::queued(link, fifo, None)
        }
        _ => Port::plain(link),
    };
    let next = |by: u32| (0..n).map(|i| (End(i), End((i + by) % n))).collect::<Vec<_>>();
    let us = Duration::from_us;
    let exponential = Distribution::Exponential;
    let requests = Pattern::Requests {
        request: 100,
        reply: Size::Exponential(20_000),
        gap: exponential(us(200)),
        closed: true,
        service: us(20),
    };
    // Few enough for no connection to fall behind for ever: what waits to be sent takes room.
    let messages = Pattern::Messages {
        bytes: Size::Fixed(30_000),
        gap: exponential(us(1_000)),
        anywhere: true,
    };
    let ping = Pattern::Ping { bytes: 56, gap: Distribution::Fixed(us(100)), closed: false };
    let datagrams = Pattern::Datagrams { bytes: Size::Fixed(900), gap: exponential(us(50)) };
    let tcp = TcpConfig {
        control,
        ecn: control == Control::Dctcp,
        segment_bytes: if queued { 65_160 } else { 0 },
        small_queues: queued,
        ..TcpConfig::default()
    };
    let traffic = |name: &str, pairs, pattern| TrafficConfig {
        tcp: tcp.clone(),
        ..TrafficConfig::new(name, pairs, pattern)
    };
    let config = NetConfig {
        shape,
        ends: (0..n).map(|host| EndConfig { host, attached: false }).collect(),
        traffic: vec![
            // Two to each host.
            traffic("bulk", [next(1), next(7)].concat(), Pattern::Bulk),
            traffic("messages", next(3), messages),
            traffic("requests", next(5), requests),
            traffic("ping", next(9), ping),
            traffic("datagrams", next(11), datagrams),
        ],
        datagrams: Vec::new(),
        local_delay: us(1),
    };
    Net::new(&config, shape.places().map(port).collect(), 1)
}

/// One test, since all threads share the counter.
#[test]
fn nothing_per_packet() {
    for (queued, control, blame) in [
        (false, Control::Cubic, false),
        (false, Control::Cubic, true),
        (false, Control::Dctcp, false),
        (true, Control::Cubic, false),
        (true, Control::Cubic, true),
    ] {
        let mut net = tree(queued, control);
        if blame {
            net.blame(BlameConfig { traffic: vec![0, 1, 2, 3, 4], datagrams: Vec::new() });
        }
        // More than twice as long afterwards, so that a list that only grows has to double.
        net.run(Time::ZERO + Duration::from_ms(40));
        let lost = |net: &Net| net.frames().dropped.iter().sum::<u64>();
        let lost_before = lost(&net);
        let bytes = allocations::bytes();
        let (before, packets) = (allocations::allocations(), net.frames().sent);
        net.run(Time::ZERO + Duration::from_ms(90));
        let count = allocations::allocations() - before;
        let bytes = allocations::bytes() - bytes;
        let packets = net.frames().sent - packets;
        let lost = lost(&net) - lost_before;
        println!(
            "queued {queued}, {control:?}, blame {blame}: {count}, {bytes} bytes, of {packets} packets, {lost} lost"
        );
        assert!(packets > 300_000);
        assert!(control == Control::Dctcp || lost > 500, "losses, too, must not cost any");
        // Some list may still meet its longest; packets do not.
        assert!(count <= packets / 5_000, "{count} allocations");
        // A list that grew with packets would double seldom, but be large: the smallest thing, a number
        // for each acknowledgement, would make a byte a packet.
        assert!(bytes < packets, "{bytes} bytes");
    }
}
