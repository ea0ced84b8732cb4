//! A network as a kernel can have it: network namespaces for hosts, virtual links between them and bridges, and what `tc` is
//! told about each interface.

use std::collections::BTreeMap;

use lowtail_engine::{Distribution, Duration};
use lowtail_net::Shape;
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::traffic::{Pattern, TrafficConfig};
use lowtail_policy::FlowParams;

use super::build::{NetworkCase, build};
use super::file::NetworkFile;
use super::pattern::{PatternFile, SizeFile};
use super::queue::{QueueFile, RuleFile};
use super::tc::TcLines;
use super::tcp::TcpFile;
use super::topology::{HostsFile, TopologyFile};
use super::traffic::{NamesFile, PairsFile, TrafficFile};
use super::world::Home;
use crate::value::{BytesText, DistributionText, DurationText};

/// A virtual link is as fast as the processor; one that a scenario limits to less would need a shaper.
const FAST_BITS_PER_S: u64 = 1_000_000_000;
/// Bytes that a datagram or a message on a connection of its own has at least: when it was due stands in it.
const STAMP_BYTES: u64 = 8;
/// Packets that may be under way on a link at most.
const UNDER_WAY: u32 = 1_000_000;
/// A packet that leaves its host leaves its sender's small queue, also where links take no time: `netem` sees to that if it delays.
const LEAST_DELAY: Duration = Duration::from_us(1);

/// Bytes of each echo, request and reply of an idle network, and from one to the next.
const IDLE_BYTES: u32 = 100;
const IDLE_GAP: Duration = Duration::from_ms(10);

/// What a kernel is told to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNetwork {
    /// Disciplines of the interface of each host.
    pub host: TcLines,
    /// Of the ports of switches towards hosts; packets come there late by the links on both sides.
    pub to_host: TcLines,
    /// Of those towards other switches; packets come there late by the link before.
    pub between: TcLines,
    /// Payload of the longest segment that TCP hands down (GSO); frames if 0.
    pub segment_bytes: u32,
    /// TCP asks for marks (ECN).
    pub ecn: bool,
    /// Bytes for which each receiver has room from the start.
    pub receive_window: u64,
    /// An idle connection starts slowly again.
    pub idle_restart: bool,
    /// The rule by which packets are tagged when they leave a host.
    pub tagged: Option<FlowParams>,
    /// Hosts have the disciplines that `lowtail host apply` gives an uplink with this rate, bit/s.
    pub uplink_rate: Option<u64>,
}

/// What a packet and its users take on a host that does nothing else, which scenarios of networks know nothing of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelCosts {
    /// Of a packet in a switch.
    pub switch: Duration,
    /// Of a packet in both hosts at the ends of its way.
    pub ends: Duration,
    /// Of a process that is woken, answers and sleeps again.
    pub process: Duration,
    /// Of a process that is woken by what is for it, beyond half of an echo's way.
    pub receive: Duration,
}

/// Medians of an idle network: of an echo, of a request with its reply, and of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleMedians(pub [Duration; 3]);

impl IdleMedians {
    /// What is left when those of another one are taken away.
    fn less(self, other: Self) -> Self {
        IdleMedians(std::array::from_fn(|i| self.0[i].saturating_sub(other.0[i])))
    }
}

impl KernelCosts {
    /// What is left of a kernel's when the simulator's are taken away, in networks with one switch and with two.
    pub fn left(real: [IdleMedians; 2], simulated: [IdleMedians; 2]) -> Self {
        let [one, two] = [0, 1].map(|i| real[i].less(simulated[i]).0);
        let [echo, request, datagram] = one;
        // There and back.
        let switch = two[0].saturating_sub(echo) / 2;
        KernelCosts {
            switch,
            ends: (echo / 2).saturating_sub(switch),
            process: request.saturating_sub(echo),
            receive: datagram.saturating_sub(echo / 2),
        }
    }
}

impl NetworkCase {
    /// What a kernel has to have for it.
    ///
    /// # Errors
    /// What a kernel does not have, or has otherwise.
    pub fn on_kernel(&self) -> Result<KernelNetwork, String> {
        self.check_shape()?;
        let file = self.file();
        let (link, fabric) = (file.link, file.fabric.unwrap_or(file.link));
        if link.rate.0.min(fabric.rate.0) < FAST_BITS_PER_S {
            return Err("links of less than 1 Gbit/s: give faster ones, and the rate to a queue of kind tbf or cake".into());
        }
        if link.delay.0 != fabric.delay.0 || link.loss != fabric.loss {
            return Err(
                "links between switches have the delay and the loss of those to hosts".into()
            );
        }
        if link.mark.is_some() || fabric.mark.is_some() || file.shared.is_some() {
            return Err(
                "marks (`mark`) and shared buffers are those of switches, not of a kernel".into()
            );
        }
        let port = |links: u32| -> Result<TcLines, String> {
            let mut lines = TcLines::default();
            let delay = (link.delay.0 * u64::from(links)).max(LEAST_DELAY);
            let lost = 100.0 * (1.0 - (1.0 - link.loss).powi(links as i32));
            let loss = if lost > 0.0 { format!(" loss {lost:.6}%") } else { String::new() };
            let delay = format!("netem limit {UNDER_WAY} delay {}us{loss}", delay.as_us_f64());
            let own = lines.add("root", &delay);
            if let Some(queue) = &file.switch {
                lines.add_queue(&format!("parent {own}:1"), queue)?;
            }
            Ok(lines)
        };
        let mut host = TcLines::default();
        if let Some(queue) = &file.queue {
            host.add_queue("root", queue)?;
        }
        if file.switch.as_ref().is_some_and(|queue| matches!(queue, QueueFile::Tag { .. })) {
            return Err("switches do not tag".into());
        }
        let tagged = match &file.queue {
            Some(queue @ QueueFile::Tag { by: RuleFile::SmallFirst, .. }) => Some(queue.rule().0),
            _ => None,
        };
        let uplink_rate = match &file.queue {
            Some(QueueFile::Tag { queue, .. }) => queue.uplink_rate(),
            _ => None,
        };
        let tcp = self.check_traffic()?;
        if tcp.segment_bytes > 0 && !file.nic.whole {
            return Err("long segments stay whole on a virtual link: `nic.whole = true`".into());
        }
        Ok(KernelNetwork {
            host,
            to_host: port(2)?,
            between: port(1)?,
            segment_bytes: tcp.segment_bytes,
            ecn: tcp.ecn,
            receive_window: tcp.receive_window,
            idle_restart: tcp.idle_restart,
            tagged,
            uplink_rate,
        })
    }

    /// Bridges know one way to each host, and ends are hosts.
    fn check_shape(&self) -> Result<(), String> {
        match self.shape() {
            Shape::Clos(clos) if clos.aggregations > 1 || clos.cores > 1 => {
                return Err("a tree with equal ways (`aggregations` and `cores` are 1 here)".into());
            }
            _ => {}
        }
        if self.homes.iter().any(|home| matches!(home, Home::Vm { .. })) {
            return Err("a network with simulated hosts".into());
        }
        if self.ends.len() > self.machines.len() {
            return Err("more than one end at a host".into());
        }
        Ok(())
    }

    /// The TCP that all traffic has, if a kernel's does what it says.
    fn check_traffic(&self) -> Result<TcpConfig, String> {
        let mut common: Option<TcpConfig> = None;
        for traffic in &self.config().traffic {
            let refuse = |what: &str| Err(format!("traffic.{}: {what}", traffic.name));
            if let Some(what) = refused(traffic) {
                return refuse(what);
            }
            if matches!(traffic.pattern, Pattern::Ping { .. } | Pattern::Datagrams { .. }) {
                continue;
            }
            // Each connection may have another congestion control; all else is the interface's or the namespace's.
            let tcp = TcpConfig { control: Control::Cubic, ..traffic.tcp.clone() };
            match &common {
                Some(other) if *other != tcp => {
                    return refuse("`tcp` has to be the same for all traffic, but for `control`");
                }
                _ => common = Some(tcp),
            }
        }
        let Some(tcp) = common else { return Ok(TcpConfig::default()) };
        let linux = TcpConfig {
            segment_bytes: tcp.segment_bytes,
            ecn: tcp.ecn,
            receive_window: tcp.receive_window,
            idle_restart: tcp.idle_restart,
            small_queues: true,
            ..TcpConfig::default()
        };
        if tcp != linux {
            return Err("`tcp` is Linux's here: `small_queues = true`, and of the rest `control`, `ecn`, `segment`, `window` and \
                        `idle_restart` can be set"
                .into());
        }
        Ok(tcp)
    }

    /// Two hosts with one switch between them, and with two, with the same disciplines and nothing but an echo, a request and a
    /// datagram now and then: what these take longer in a kernel is costs.
    ///
    /// # Errors
    /// As [`on_kernel()`](Self::on_kernel).
    pub fn idle(&self) -> Result<[Self; 2], String> {
        let gap = DistributionText(Distribution::Fixed(IDLE_GAP));
        let bytes = BytesText(IDLE_BYTES.into());
        let ping = PatternFile::Ping { bytes: IDLE_BYTES, gap, closed: true };
        let reply = SizeFile::Fixed(bytes);
        let requests =
            PatternFile::Requests { request: bytes, reply, gap, closed: true, service: None };
        let datagrams = PatternFile::Datagrams { bytes: IDLE_BYTES, gap };
        // One between two of the others.
        let third = IDLE_GAP / 3;
        let traffic = [
            ("1 ping", between(ping, Duration::ZERO)),
            ("2 requests", between(requests, third)),
            ("3 datagrams", between(datagrams, third * 2)),
        ];
        let traffic = BTreeMap::from(traffic.map(|(name, file)| (name.to_string(), file)));
        let one = TopologyFile::Star { hosts: HostsFile::Number(2) };
        let side = HostsFile::Number(1);
        let two = TopologyFile::Dumbbell { left: side.clone(), right: side };
        let idle = |topology| {
            let file = NetworkFile { topology, ..self.file().clone() };
            build(&file, &BTreeMap::new(), &traffic, Vec::new(), None).map_err(|bad| bad.message)
        };
        Ok([idle(one)?, idle(two)?])
    }

    /// The same network with what a kernel costs.
    #[must_use]
    pub fn with_costs(&self, costs: KernelCosts) -> Self {
        let mut case = self.clone();
        // A way of n links has n - 1 switches.
        case.add_delay((costs.ends + costs.switch) / 2, costs.switch);
        for traffic in &mut case.config_mut().traffic {
            if let Pattern::Requests { service, .. } = &mut traffic.pattern {
                *service += costs.process;
            }
        }
        case
    }
}

/// Traffic from the first of two hosts to the second.
fn between(pattern: PatternFile, start: Duration) -> TrafficFile {
    TrafficFile {
        from: Some(NamesFile::One("0".into())),
        to: Some(NamesFile::One("1".into())),
        flows: None,
        pairs: PairsFile::InTurn,
        count: 1,
        pattern: Some(pattern),
        connection: None,
        tcp: TcpFile { small_queues: Some(true), ..TcpFile::default() },
        start: Some(DurationText(start)),
        until: None,
        warmup: None,
        measure: None,
        bins: Vec::new(),
        reveal: false,
    }
}

/// What of its pattern a process cannot do.
fn refused(traffic: &TrafficConfig) -> Option<&'static str> {
    let per_message = traffic.per_message();
    match traffic.pattern {
        Pattern::Messages { anywhere: true, .. } => Some("messages that go `anywhere`"),
        Pattern::Messages { bytes, .. } if per_message && bytes.least() < STAMP_BYTES => {
            Some("messages with a connection each have 8 bytes at least")
        }
        Pattern::Datagrams { bytes, .. } if bytes.least() < STAMP_BYTES => {
            Some("datagrams have 8 bytes at least")
        }
        Pattern::Requests { service, .. } if service > Duration::ZERO => {
            Some("`service` is work of a process, which is not played")
        }
        _ if traffic.reveal => {
            Some("`reveal` is for the queue of kind oracle, which no kernel has")
        }
        _ if traffic.tcp.control == Control::Dctcp => {
            Some("DCTCP marks at a threshold, which no discipline here does")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    fn network(text: &str) -> NetworkCase {
        let file = format!(
            "title = \"t\"\nsource = \"s\"\nduration = \"1s\"\n[network]\n{text}\n[traffic.a]\nfrom = \"A\"\nto = \"B\"\n\
             pattern = {{ kind = \"ping\", gap = \"10ms\" }}\n"
        );
        let experiment =
            Experiment::parse("k.toml", &file, None).unwrap_or_else(|error| panic!("{error}"));
        experiment.cases(false)[0].network.clone().expect("one")
    }

    const STAR: &str = "topology = { kind = \"star\", hosts = [\"A\", \"B\"] }\n";

    /// Two links of 1 ms before the port of a switch to a host, in front of what waits there; their loss adds up.
    #[test]
    fn what_tc_is_told() {
        let text = format!(
            "{STAR}link = {{ rate = \"10Gbit/s\", delay = \"1ms\", loss = 0.01 }}\n\
             queue = {{ kind = \"tbf\", rate = \"8Mbit/s\", burst = 2000, queue = {{ kind = \"fq-codel\" }} }}\n\
             switch = {{ kind = \"fifo\", packets = 20 }}\n"
        );
        let kernel = network(&text).on_kernel().expect("a kernel has all of it");
        let host = [
            "root handle 1: tbf rate 8000000bit burst 2000 limit 1000000",
            "parent 1:1 handle 2: fq_codel target 5000us interval 100000us noecn",
        ];
        assert_eq!(kernel.host.lines, host);
        let [delay, queue] = &kernel.to_host.lines[..] else { panic!("{kernel:?}") };
        assert!(
            delay.starts_with("root handle 1: netem limit 1000000 delay 2000us loss 1.990000%"),
            "{delay}"
        );
        assert_eq!(queue, "parent 1:1 handle 2: pfifo limit 20");
        assert!(
            kernel.between.lines[0].ends_with("delay 1000us loss 1.000000%"),
            "{:?}",
            kernel.between
        );
    }

    /// What a kernel has otherwise is named.
    #[test]
    fn what_a_kernel_does_not_have() {
        for (text, why) in [
            ("link = { rate = \"100Mbit/s\" }", "faster"),
            ("link = { rate = \"1Gbit/s\" }\nqueue = { kind = \"drr\", by = \"pair\" }", "drr"),
            (
                "link = { rate = \"1Gbit/s\" }\nqueue = { kind = \"split\", queue = { kind = \"fifo\" } }",
                "split",
            ),
            ("link = { rate = \"1Gbit/s\", mark = \"30KB\" }", "mark"),
            (
                "link = { rate = \"1Gbit/s\" }\nfabric = { rate = \"1Gbit/s\", delay = \"9us\" }",
                "delay",
            ),
        ] {
            let refused = network(&format!("{STAR}{text}\n")).on_kernel().expect_err(text);
            assert!(refused.contains(why), "{refused}");
        }
    }

    /// An echo passes each switch twice, and both ends; a request has a process in it, and a datagram ends in one.
    #[test]
    fn costs_are_what_is_left() {
        let us = |all: [u64; 3]| IdleMedians(all.map(Duration::from_us));
        let real = [us([260, 320, 170]), us([320, 380, 200])];
        let simulated = [us([100, 100, 50]), us([110, 110, 55])];
        let costs = KernelCosts::left(real, simulated);
        // 160 us with one switch and 210 with two: 25 for each, each way, and 55 for the ends.
        let wanted = [25, 55, 60, 40].map(Duration::from_us);
        assert_eq!([costs.switch, costs.ends, costs.process, costs.receive], wanted);
        assert_eq!(KernelCosts::left(simulated, simulated), KernelCosts::default());
    }
}
