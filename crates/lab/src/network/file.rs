//! The tables `[network]`, `[end]` and `[traffic]` as scenario files write them.

use lowtail_engine::Duration;
use lowtail_net::traffic::{Pattern, Size, TrafficConfig};
use lowtail_net::{Clos, Rate as NetRate, Shape, tcp};
use schemars::JsonSchema;
use serde::Deserialize;

use super::queue::QueueFile;
use crate::error::Bad;
use crate::value::{Bytes, Rate, Span, SpreadValue};

/// A network: machines, the links to their switches, the switches.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkFile {
    /// What it looks like.
    pub topology: TopologyFile,
    /// Links between machines and switches.
    pub link: LinkFile,
    /// Links between switches; as those of machines if absent.
    pub fabric: Option<LinkFile>,
    /// What waits for the NIC of a machine; first come, first served without limit if absent.
    pub queue: Option<QueueFile>,
    /// The NIC of a machine behind that.
    #[serde(default)]
    pub nic: TransmitFile,
    /// What waits at the ports of switches; first come, first served in the link's `buffer` if
    /// absent.
    pub switch: Option<QueueFile>,
    /// A buffer that the ports of each switch share; each has its own if absent.
    pub shared: Option<SharedFile>,
    /// From an end to another one in the same machine, if no host is simulated.
    #[serde(default = "ten_us")]
    pub local_delay: Span,
}

fn ten_us() -> Span {
    Span(Duration::from_us(10))
}

/// What a network looks like.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TopologyFile {
    /// All machines at one switch.
    Star {
        /// Their names, or how many.
        machines: MachinesFile,
    },
    /// Two switches and a link between them.
    Dumbbell {
        /// Machines at the one.
        left: MachinesFile,
        /// Machines at the other.
        right: MachinesFile,
    },
    /// The fat-tree of switches with `k` ports: k^3/4 machines.
    FatTree {
        /// Ports of a switch: even, 2 to 48.
        #[schemars(range(min = 2, max = 48))]
        k: u32,
    },
    /// Pods of edge and aggregation switches, and core switches between them.
    Tree {
        /// Pods.
        #[schemars(range(min = 1, max = 64))]
        pods: u32,
        /// Edge switches of a pod.
        #[schemars(range(min = 1, max = 64))]
        edges: u32,
        /// Aggregation switches of a pod.
        #[schemars(range(min = 1, max = 64))]
        aggregations: u32,
        /// Core switches: a multiple of `aggregations`.
        #[schemars(range(min = 1, max = 4096))]
        cores: u32,
        /// Machines at an edge switch.
        #[schemars(range(min = 1, max = 64))]
        machines: u32,
    },
}

/// Machines: their names, or how many (then they are called 0, 1 and so on).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of machines, or a list of names")]
pub enum MachinesFile {
    /// So many.
    Number(#[schemars(range(min = 1, max = 8192))] u32),
    /// These.
    Names(#[schemars(length(min = 1))] Vec<String>),
}

impl MachinesFile {
    fn names(&self, first: usize) -> Vec<String> {
        match self {
            MachinesFile::Number(n) => (0..*n as usize).map(|i| (first + i).to_string()).collect(),
            MachinesFile::Names(names) => names.clone(),
        }
    }
}

/// Most machines of a network.
const MACHINES_MAX: u32 = 8192;

impl TopologyFile {
    /// The shape, and the names of the machines.
    pub(crate) fn build(&self) -> Result<(Shape, Vec<String>), Bad> {
        let shape = match self {
            TopologyFile::Star { machines } => {
                let names = machines.names(0);
                return self.named(Shape::Star { hosts: names.len() as u32 }, names);
            }
            TopologyFile::Dumbbell { left, right } => {
                let mut names = left.names(0);
                let n = names.len();
                names.extend(right.names(n));
                let shape = Shape::Dumbbell { left: n as u32, right: (names.len() - n) as u32 };
                return self.named(shape, names);
            }
            TopologyFile::FatTree { k } => {
                if !(2..=48).contains(k) || k % 2 == 1 {
                    return Err(Bad::new("k", format!("{k}: an even number from 2 to 48")));
                }
                Shape::Clos(Clos::fat_tree(*k))
            }
            &TopologyFile::Tree { pods, edges, aggregations, cores, machines } => {
                let sizes = [("pods", pods), ("edges", edges), ("aggregations", aggregations)];
                for (key, n) in sizes.into_iter().chain([("machines", machines)]) {
                    if !(1..=64).contains(&n) {
                        return Err(Bad::new(key, format!("{n}: 1 to 64")));
                    }
                }
                if cores == 0 || cores % aggregations != 0 {
                    let message = format!(
                        "{cores}: a multiple of the {aggregations} aggregation switches of a pod"
                    );
                    return Err(Bad::new("cores", message));
                }
                Shape::Clos(Clos { pods, edges, aggregations, cores, hosts: machines })
            }
        };
        self.named(shape, (0..shape.hosts()).map(|i| i.to_string()).collect())
    }

    fn named(&self, shape: Shape, names: Vec<String>) -> Result<(Shape, Vec<String>), Bad> {
        if names.is_empty() || shape.hosts() > MACHINES_MAX {
            let message = format!("{} machines: 1 to {MACHINES_MAX}", names.len());
            return Err(Bad::new("", message));
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Bad::new("", format!("two machines are called `{}`", twice[0])));
        }
        Ok((shape, names))
    }
}

/// Links of a kind.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkFile {
    /// Bits per second, each way.
    pub rate: Rate,
    /// From the last bit sent to the next queue: the wire, and forwarding there.
    #[serde(default = "one_us")]
    pub delay: Span,
    /// What may wait at a switch for this link, in bytes on the wire.
    #[serde(default = "buffer")]
    pub buffer: Bytes,
    /// Packets that find more than this before them at a switch are marked (ECN).
    pub mark: Option<Bytes>,
}

fn one_us() -> Span {
    Span(Duration::from_us(1))
}

/// 512 KB a port: of the order of what top-of-rack switches have (4 MB for 48 ports, shared).
fn buffer() -> Bytes {
    Bytes(512_000)
}

impl LinkFile {
    pub(crate) fn build(&self) -> lowtail_net::LinkConfig {
        lowtail_net::LinkConfig {
            rate: NetRate::from_bits_per_s(self.rate.0),
            delay: self.delay.0,
            buffer_bytes: self.buffer.0,
            mark_bytes: self.mark.map(|mark| mark.0),
        }
    }
}

/// A buffer that the ports of a switch share, beside what each may hold by itself.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedFile {
    /// Bytes of each switch.
    pub bytes: Bytes,
    /// A port may hold so many times what is free: 0.25 to 16, in steps of a quarter.
    #[serde(default = "once")]
    #[schemars(range(min = 0.25, max = 16))]
    pub times: f64,
}

fn once() -> f64 {
    1.0
}

impl SharedFile {
    pub(crate) fn build(&self) -> Result<lowtail_net::net::SharedConfig, Bad> {
        let quarters = self.times * 4.0;
        if self.bytes.0 == 0 || !(1.0..=64.0).contains(&quarters) || quarters.fract() != 0.0 {
            let message = "some bytes, and 0.25 to 16 times what is free, in steps of a quarter";
            return Err(Bad::new("shared", message));
        }
        Ok(lowtail_net::net::SharedConfig { bytes: self.bytes.0, quarters: quarters as u32 })
    }
}

/// The NIC of a machine.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransmitFile {
    /// Descriptors of the transmit ring; a segment takes one for each page, and one more.
    #[schemars(range(min = 8, max = 65536))]
    pub ring: u32,
    /// The bytes in the ring are limited (BQL).
    pub bql: bool,
    /// Long segments leave whole, as over a virtual link.
    pub whole: bool,
    /// Shortest time between two interrupts for what comes in, where hosts are simulated.
    pub moderation: Span,
    /// Packets that the receive ring holds, where hosts are simulated.
    #[schemars(range(min = 16, max = 4096))]
    pub receive_ring: u16,
}

impl Default for TransmitFile {
    fn default() -> Self {
        TransmitFile {
            ring: 256,
            bql: true,
            whole: false,
            moderation: Span(Duration::ZERO),
            receive_ring: 256,
        }
    }
}

/// An end of the network without a simulated host: a machine, or a VM on one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndFile {
    /// The machine.
    pub on: String,
}

/// One name or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a name, or a list of names")]
pub enum NamesFile {
    /// One.
    One(String),
    /// Several.
    Several(#[schemars(length(min = 1))] Vec<String>),
}

impl NamesFile {
    pub(crate) fn list(&self) -> &[String] {
        match self {
            NamesFile::One(name) => std::slice::from_ref(name),
            NamesFile::Several(names) => names,
        }
    }
}

/// Who talks with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PairsFile {
    /// Each of `from` with the one at the same place of `to`, round and round.
    #[default]
    InTurn,
    /// Each of `from` with each of `to`, but not with itself.
    All,
    /// Each of `from` with another one of them, at random: who receives, receives from one.
    Permutation,
}

/// Traffic of a kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficFile {
    /// Who sends, or asks: names of VMs, ends or machines; `all` are all ends.
    pub from: NamesFile,
    /// Who receives, or is asked.
    pub to: NamesFile,
    /// Who of them with whom.
    #[serde(default)]
    pub pairs: PairsFile,
    /// How many conversations each pair has.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub count: u32,
    /// What is sent, and when.
    pub pattern: PatternFile,
    /// How its TCP goes about things.
    #[serde(default)]
    pub tcp: TcpFile,
    /// When it begins.
    #[serde(default)]
    pub start: Option<Span>,
    /// After this nothing is begun any more.
    pub until: Option<Span>,
    /// What comes before this is not measured.
    #[serde(default)]
    pub warmup: Option<Span>,
    /// So many are measured; until the time is over if absent.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub measure: Option<u64>,
    /// Messages are measured by size, too: those up to each of these, and the rest.
    #[serde(default)]
    pub bins: Vec<Bytes>,
    /// Queues that know all (`oracle`) may look at how much of a message is left.
    #[serde(default)]
    pub reveal: bool,
}

fn one() -> u32 {
    1
}

/// What is sent, and when.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PatternFile {
    /// A TCP stream without an end.
    Bulk {},
    /// So many bytes over TCP, once.
    Transfer {
        /// Bytes.
        bytes: Bytes,
    },
    /// Messages on open TCP connections, measured from the write to the last byte's arrival.
    Messages {
        /// Their size.
        bytes: SizeFile,
        /// From one to the next.
        gap: Option<SpreadValue>,
        /// In place of `gap`: the share of its link that each sender fills, at random moments.
        #[schemars(range(min = 0.001, max = 2.0))]
        load: Option<f64>,
        /// Each message of a sender goes to another receiver, at random; else each pair has
        /// messages of its own.
        #[serde(default)]
        anywhere: bool,
    },
    /// Requests and replies on open TCP connections, measured where they begin.
    Requests {
        /// Bytes of a request.
        #[serde(default = "hundred")]
        request: Bytes,
        /// Bytes of a reply.
        reply: SizeFile,
        /// From one request to the next; with `closed`, from a reply to the next request.
        gap: SpreadValue,
        /// The next request waits for the reply.
        #[serde(default)]
        closed: bool,
        /// Work of a process for each request.
        service: Option<Span>,
    },
    /// Echo requests, answered by the kernel.
    Ping {
        /// Payload.
        #[serde(default = "ping_bytes")]
        #[schemars(range(min = 1, max = 1472))]
        bytes: u32,
        /// From one to the next; with `closed`, from an answer to the next.
        gap: SpreadValue,
        /// The next one waits for the answer.
        #[serde(default)]
        closed: bool,
    },
    /// Datagrams, whatever becomes of them, measured from end to end.
    Datagrams {
        /// Payload.
        #[schemars(range(min = 1, max = 1472))]
        bytes: u32,
        /// From one to the next.
        gap: SpreadValue,
    },
}

fn hundred() -> Bytes {
    Bytes(100)
}

fn ping_bytes() -> u32 {
    56
}

/// How long a message is: `"2KB"`, `{ exponential = "30KB" }` (the mean), or
/// `{ pareto = { shape = 1.2, least = "1KB", most = "10MB" } }`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "bytes, { exponential = … } or { pareto = … }")]
pub enum SizeFile {
    /// So many bytes.
    Fixed(Bytes),
    /// Varying.
    Varying(VaryingSize),
}

/// A size that varies.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VaryingSize {
    /// Exponential with this mean.
    Exponential(Bytes),
    /// Pareto, truncated.
    Pareto {
        /// The exponent.
        shape: f64,
        /// Least bytes.
        least: Bytes,
        /// Most bytes.
        most: Bytes,
    },
}

impl SizeFile {
    pub(crate) fn build(&self) -> Result<Size, String> {
        match *self {
            SizeFile::Fixed(bytes) => Ok(Size::Fixed(bytes.0)),
            SizeFile::Varying(VaryingSize::Exponential(mean)) => Ok(Size::Exponential(mean.0)),
            SizeFile::Varying(VaryingSize::Pareto { shape, least, most }) => {
                if !(0.1..=10.0).contains(&shape) {
                    return Err(format!("shape {shape}: 0.1 to 10"));
                }
                if least.0 == 0 || least.0 >= most.0 {
                    return Err(format!(
                        "from {} to {} bytes: the first is more than none and less",
                        least.0, most.0
                    ));
                }
                Ok(Size::Pareto { shape, least: least.0, most: most.0 })
            }
        }
    }
}

/// How a TCP goes about things; what is absent is as in Linux today.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpFile {
    /// Congestion control: `cubic` if absent.
    pub control: Option<ControlFile>,
    /// Packets are capable of marks; always with `dctcp`.
    pub ecn: Option<bool>,
    /// Most payload that is handed down in one piece (GSO, TSO); one frame's if absent.
    pub segment: Option<Bytes>,
    /// A millisecond's worth at most is handed down in one piece, two frames at least.
    pub autosize: Option<bool>,
    /// Little waits in the own machine (TCP small queues).
    pub small_queues: Option<bool>,
    /// Bytes that a receiver has room for.
    pub window: Option<Bytes>,
    /// Segments of the first window.
    #[schemars(range(min = 1, max = 1000))]
    pub initial_window: Option<u32>,
    /// Least time-out beyond the round trip.
    pub rto_min: Option<Span>,
    /// Longest delay of an acknowledgement.
    pub delayed_ack: Option<Span>,
    /// A probe before the time-out.
    pub tail_probe: Option<bool>,
    /// An idle connection starts slowly again.
    pub idle_restart: Option<bool>,
}

/// A congestion control.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlFile {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
}

impl TcpFile {
    fn build(&self) -> tcp::Config {
        let mut config = tcp::Config::default();
        let TcpFile { segment, autosize, small_queues, window, initial_window, .. } = *self;
        if let Some(control) = self.control {
            config.control = match control {
                ControlFile::Reno => tcp::Control::Reno,
                ControlFile::Cubic => tcp::Control::Cubic,
                ControlFile::Dctcp => tcp::Control::Dctcp,
            };
        }
        config.ecn = self.ecn.unwrap_or(config.control == tcp::Control::Dctcp);
        // What fits into an IP packet.
        config.segment_bytes =
            segment.map_or(config.segment_bytes, |bytes| bytes.0.min(65_483) as u32);
        config.autosize = autosize.unwrap_or(config.autosize);
        config.small_queues = small_queues.unwrap_or(config.small_queues);
        config.receive_window = window.map_or(config.receive_window, |bytes| bytes.0.max(2 * 1448));
        config.initial_window = initial_window.unwrap_or(config.initial_window).clamp(1, 1000);
        config.rto_min = self.rto_min.map_or(config.rto_min, |span| span.0);
        config.delayed_ack = self.delayed_ack.map_or(config.delayed_ack, |span| span.0);
        config.tail_probe = self.tail_probe.unwrap_or(config.tail_probe);
        config.idle_restart = self.idle_restart.unwrap_or(config.idle_restart);
        config
    }
}

impl PatternFile {
    /// On links of this rate.
    fn build(&self, rate: Rate) -> Result<Pattern, Bad> {
        let size = |key: &str, size: &SizeFile| size.build().map_err(|m| Bad::new(key, m));
        Ok(match self {
            PatternFile::Bulk {} => Pattern::Bulk,
            PatternFile::Transfer { bytes } => Pattern::Transfer { bytes: bytes.0.max(1) },
            PatternFile::Messages { bytes, gap, load, anywhere } => {
                let bytes = size("bytes", bytes)?;
                let gap = match (gap, load) {
                    (Some(gap), None) => gap.0,
                    (None, Some(load)) if (0.001..=2.0).contains(load) => {
                        let us = bytes.mean() * 8e6 / (load * rate.0 as f64);
                        lowtail_engine::Spread::Exponential(Duration::from_us_f64(us))
                    }
                    (None, Some(load)) => {
                        return Err(Bad::new("load", format!("{load}: a share from 0.001 to 2")));
                    }
                    _ => return Err(Bad::new("gap", "give one of `gap` and `load`")),
                };
                Pattern::Messages { bytes, gap, anywhere: *anywhere }
            }
            PatternFile::Requests { request, reply, gap, closed, service } => Pattern::Requests {
                request: request.0.max(1),
                reply: size("reply", reply)?,
                gap: gap.0,
                closed: *closed,
                service: service.map_or(Duration::ZERO, |span| span.0),
            },
            PatternFile::Ping { bytes, gap, closed } => {
                Pattern::Ping { bytes: (*bytes).clamp(1, 1472), gap: gap.0, closed: *closed }
            }
            PatternFile::Datagrams { bytes, gap } => {
                let bytes = Size::Fixed(u64::from((*bytes).clamp(1, 1472)));
                Pattern::Datagrams { bytes, gap: gap.0 }
            }
        })
    }
}

impl TrafficFile {
    /// The traffic called `name` between `pairs`, over links of this rate.
    pub(crate) fn build(
        &self,
        name: &str,
        pairs: Vec<(lowtail_net::End, lowtail_net::End)>,
        rate: Rate,
    ) -> Result<TrafficConfig, Bad> {
        let pattern = self.pattern.build(rate).map_err(|bad| bad.under(&["pattern"]))?;
        let gap = match pattern {
            Pattern::Messages { gap, .. } | Pattern::Datagrams { gap, .. } => Some(gap),
            Pattern::Requests { gap, closed: false, .. }
            | Pattern::Ping { gap, closed: false, .. } => Some(gap),
            _ => None,
        };
        if gap.is_some_and(|gap| gap.mean() < Duration::from_ns(100)) {
            let message = "no gap between one and the next: at least 100ns on average";
            return Err(Bad::new("gap", message).under(&["pattern"]));
        }
        if !self.bins.is_sorted_by(|a, b| a < b) {
            return Err(Bad::new("bins", "sizes in ascending order"));
        }
        let span = |span: Option<Span>, default| span.map_or(default, |span: Span| span.0);
        Ok(TrafficConfig {
            tcp: self.tcp.build(),
            start: span(self.start, Duration::ZERO),
            until: span(self.until, Duration::MAX),
            warmup: span(self.warmup, Duration::ZERO),
            count: self.measure.unwrap_or(0),
            bins: self.bins.iter().map(|bytes| bytes.0).collect(),
            reveal: self.reveal,
            ..TrafficConfig::new(name, pairs, pattern)
        })
    }
}
