//! Networks to test, and a port's queue that tells what passes and loses what it is told to.

use std::fmt;
use std::sync::{Arc, Mutex};

use lowtail_engine::{Duration, Time};
use lowtail_net::packet::{Ecn, Kind, MSS_BYTES, Packet, PacketId};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::{Cause, Queue, QueueContext};
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{
    End, EndConfig, LinkConfig, Net, NetConfig, Pattern, Place, Port, Rate, Shape, TrafficConfig,
};

pub(crate) const MSS: u64 = MSS_BYTES as u64;
/// A full segment on the wire: 1500 bytes and what Ethernet adds, 38.
pub(crate) const FULL: u64 = 1538;

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

pub(crate) fn at(span: Duration) -> Time {
    Time::ZERO + span
}

/// A link with room for all that a test sends.
pub(crate) fn link(mbit_s: u64, delay: Duration) -> LinkConfig {
    let rate = Rate::from_mbit_s(mbit_s);
    LinkConfig { rate, delay, buffer_bytes: 1 << 40, mark_bytes: None, loss_per_billion: 0 }
}

/// A network of `shape`, one end a host, with the ports that `port` makes.
pub(crate) fn net(
    shape: Shape,
    port: impl FnMut(Place) -> Port,
    traffic: Vec<TrafficConfig>,
    seed: u64,
) -> Net {
    let config = NetConfig {
        shape,
        ends: (0..shape.hosts()).map(|host| EndConfig { host, attached: false }).collect(),
        traffic,
        datagrams: Vec::new(),
        local_delay: us(1),
    };
    Net::new(&config, shape.places().map(port).collect(), seed)
}

/// One kind of traffic from host 0 to host 1.
pub(crate) fn traffic(pattern: Pattern, tcp: TcpConfig) -> TrafficConfig {
    TrafficConfig { tcp, ..TrafficConfig::new("test", vec![(End(0), End(1))], pattern) }
}

/// With a control, and a window of the receiver that is no limit.
pub(crate) fn tcp(control: Control) -> TcpConfig {
    TcpConfig { control, receive_window: 1 << 40, ..TcpConfig::default() }
}

/// What has passed a [`Watch`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) at: Time,
    pub(crate) packet: Packet,
    pub(crate) lost: bool,
    /// How long it has waited.
    pub(crate) waited: Duration,
}

pub(crate) type Log = Arc<Mutex<Vec<Seen>>>;

/// What is to become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Lose,
    Mark,
}

type Rule = Box<dyn FnMut(&Packet, Time) -> Fate + Send>;

/// A discipline before which packets are lost or marked by rule. It tells what it loses, and what
/// passes when it leaves.
pub(crate) struct Watch {
    inner: Box<dyn Queue>,
    rule: Rule,
    log: Option<Log>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({:?})", self.inner)
    }
}

impl Watch {
    /// `log` may be none where there would be too much to tell.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(
        inner: Box<dyn Queue>,
        rule: impl FnMut(&Packet, Time) -> Fate + Send + 'static,
        log: Option<Log>,
    ) -> Box<dyn Queue> {
        Box::new(Watch { inner, rule: Box::new(rule), log })
    }

    fn tell(&self, at: Time, packet: Packet, lost: bool) {
        if let Some(log) = &self.log {
            let waited = at.since(packet.queued);
            log.lock().unwrap().push(Seen { at, packet, lost, waited });
        }
    }
}

impl Queue for Watch {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        match (self.rule)(&cx.pool[id], cx.now) {
            Fate::Lose => {
                self.tell(cx.now, cx.pool[id], true);
                return cx.drop(id, Cause::Aqm);
            }
            Fate::Mark => {
                assert_eq!(cx.pool[id].ecn, Ecn::Capable);
                cx.pool[id].ecn = Ecn::Marked;
            }
            Fate::Pass => {}
        }
        self.inner.enqueue(id, cx);
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        let id = self.inner.dequeue(cx)?;
        self.tell(cx.now, cx.pool[id], false);
        Some(id)
    }

    fn ready_at(&self) -> Option<Time> {
        self.inner.ready_at()
    }

    fn packets(&self) -> usize {
        self.inner.packets()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}

pub(crate) fn fifo() -> Box<dyn Queue> {
    Box::new(Fifo::new(FifoLimit::Bytes(1 << 40), None))
}

/// One flow over a long way: host 0 sends to host 1 over links of `mbit_s`, `rtt` there and
/// back without what sending takes. `rule` says what becomes of data on its way; the log has
/// data as they leave host 0 (or are lost there), and acknowledgements as they leave host 1.
pub(crate) fn path(
    mbit_s: u64,
    rtt: Duration,
    traffic: TrafficConfig,
    rule: impl FnMut(&Packet, Time) -> Fate + Send + 'static,
) -> (Net, Log) {
    path_both(mbit_s, rtt, traffic, rule, pass)
}

/// The same, with a rule for acknowledgements.
pub(crate) fn path_both(
    mbit_s: u64,
    rtt: Duration,
    traffic: TrafficConfig,
    mut rule: impl FnMut(&Packet, Time) -> Fate + Send + 'static,
    back: impl FnMut(&Packet, Time) -> Fate + Send + 'static,
) -> (Net, Log) {
    let mut back = Some(back);
    let log = Log::default();
    let wire = link(mbit_s, rtt / 4);
    let mut rule = Some(move |packet: &Packet, now: Time| match packet.kind {
        Kind::Data => rule(packet, now),
        _ => Fate::Pass,
    });
    let port = |place| {
        let queue = match place {
            Place::Host(0) => Watch::new(fifo(), rule.take().unwrap(), Some(log.clone())),
            Place::Host(_) => Watch::new(fifo(), back.take().unwrap(), Some(log.clone())),
            _ => return Port::plain(wire),
        };
        Port::queued(wire, queue, None)
    };
    (net(Shape::Star { hosts: 2 }, port, vec![traffic], 1), log)
}

/// Nothing is lost.
pub(crate) fn pass(_: &Packet, _: Time) -> Fate {
    Fate::Pass
}

/// Loses the first transmission of each segment that begins with one of these (counted in full
/// segments), as often as it is listed.
pub(crate) fn lose(segments: Vec<u64>) -> impl FnMut(&Packet, Time) -> Fate + Send + 'static {
    let mut left = segments;
    move |packet, _| match left.iter().position(|&n| n * MSS == packet.seq) {
        Some(i) => {
            left.swap_remove(i);
            Fate::Lose
        }
        None => Fate::Pass,
    }
}

/// What the log has of data, lost or not.
pub(crate) fn data(log: &Log) -> Vec<Seen> {
    log.lock().unwrap().iter().filter(|seen| seen.packet.kind == Kind::Data).copied().collect()
}

/// What it has of acknowledgements.
pub(crate) fn acks(log: &Log) -> Vec<Seen> {
    log.lock().unwrap().iter().filter(|seen| seen.packet.kind == Kind::Ack).copied().collect()
}

/// When segment number `n` was sent, each time.
pub(crate) fn sent_at(log: &Log, n: u64) -> Vec<Time> {
    data(log).iter().filter(|seen| seen.packet.seq == n * MSS).map(|seen| seen.at).collect()
}

/// Whether `x` is `expected` but for a share `within` of it.
#[track_caller]
pub(crate) fn close(what: &str, x: f64, expected: f64, within: f64) {
    let off = x / expected - 1.0;
    println!("{what}: {x:.6}, expected {expected:.6}, {:+.3} %", off * 100.0);
    assert!(off.abs() <= within, "{what}: {x}, expected {expected} within {within}");
}
