//! NICs and traffic of a host, as scenario files write them.

use std::collections::BTreeMap;

use lowtail_engine::Duration;
use lowtail_host::Dom;
use lowtail_host::io::IoConfig;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::io::ports::Order;
use lowtail_net::Rate;
use lowtail_net::datagram::Pace;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::case::spec::VmKind;
use crate::error::{KeyError, hint};
use crate::network::links::{HostFlow, HostLinks, Link, Way};
use crate::value::{DistributionText, DurationText, RateText};

/// Most NICs and flows of a host.
const NICS_MAX: usize = 64;
const FLOWS_MAX: usize = 4096;

/// A NIC of the host, or several of a kind, in the hands of the driver domain.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicFile {
    /// How many.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: u16,
    /// Rate of its wire, each way.
    pub rate: RateText,
    /// From here to the host at the other end.
    #[serde(default = "twenty_us")]
    pub latency: DurationText,
    /// Shortest time between two interrupts.
    #[serde(default)]
    pub moderation: Option<DurationText>,
    /// Packets that fit into its receive ring.
    #[serde(default = "ring")]
    #[schemars(range(min = 16, max = 4096))]
    pub ring: u16,
}

fn one() -> u16 {
    1
}

fn twenty_us() -> DurationText {
    DurationText(Duration::from_us(20))
}

fn ring() -> u16 {
    256
}

/// Traffic of a VM, or of each VM of a kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowFile {
    /// The VM, a `net-guest`, at this end.
    pub vm: String,
    /// Where it runs.
    pub way: WayFile,
    /// How many like this each VM has.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: u16,
    /// When packets are sent.
    pub pace: PaceFile,
    /// Payload of a packet in bytes; beyond 1472 it is an aggregate that the NIC cuts up.
    #[schemars(range(min = 1, max = 65000))]
    pub payload: u32,
    /// Payload of an answer.
    #[serde(default = "ping_bytes")]
    #[schemars(range(min = 1, max = 65000))]
    pub reply: u32,
    /// Work of a process for each request; without it the kernel answers, as it does a ping.
    pub service: Option<DurationText>,
    /// Requests to measure; until the time is over if absent.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub requests: Option<u64>,
    /// What comes before this is not measured.
    #[serde(default)]
    pub warmup: Option<DurationText>,
    /// After this nothing is sent any more.
    pub until: Option<DurationText>,
}

fn ping_bytes() -> u32 {
    56
}

/// Where a flow runs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WayFile {
    /// From outside through these NICs: the first VM through the first one, and so on.
    In(String),
    /// To the outside through these NICs.
    Out(String),
    /// To these VMs of the same host: the first to the first, and so on.
    To(String),
}

/// When a flow's packets are sent.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PaceFile {
    /// As fast as the wire takes them, whatever becomes of them.
    Line,
    /// With this gap, whatever becomes of them.
    Open(DistributionText),
    /// So many packets in flight.
    Window(#[schemars(range(min = 1, max = 4096))] u16),
    /// Requests with this gap, answered or not; the time to the answer is measured.
    Requests(DistributionText),
}

/// The tables of a scenario that are about NICs and traffic of its host.
pub(crate) struct IoTables<'f> {
    /// `[nic]`.
    pub(crate) nics: &'f BTreeMap<String, NicFile>,
    /// `[flow]`.
    pub(crate) flows: &'f BTreeMap<String, FlowFile>,
    /// Names of the tables `[vm]`, those that the case leaves out included.
    pub(crate) vms: Vec<&'f str>,
    /// `events` of `[host]`.
    pub(crate) events: Order,
}

/// NICs, links and flows of a host whose VMs are `groups`; what it wants to be measured goes there.
pub(crate) fn build(
    tables: &IoTables<'_>,
    costs: PathCosts,
    groups: &mut [VmKind],
    is_net: &dyn Fn(Dom) -> bool,
) -> Result<(IoConfig, HostLinks), KeyError> {
    let IoTables { nics, flows, vms, events } = tables;
    let mut io = IoConfig { order: *events, costs, ..IoConfig::default() };
    let mut links = HostLinks::default();
    let mut first = BTreeMap::new();
    for (name, nic) in *nics {
        let in_nic = |bad: KeyError| bad.under(&["nic", name]);
        first.insert(name.as_str(), (io.nics.len() as u16, nic.count));
        let config = nic.build().map_err(in_nic)?;
        io.nics.extend((0..nic.count).map(|_| config));
        links.links.extend((0..nic.count).map(|_| nic.link()));
        let copy = |i| if i == 0 { name.clone() } else { format!("{name}-{}", i + 1) };
        links.names.extend((0..nic.count).map(copy));
        if nic.count == 0 || io.nics.len() > NICS_MAX {
            return Err(in_nic(KeyError::new("count", format!("1 to {NICS_MAX} NICs in all"))));
        }
    }
    for (name, flow) in *flows {
        let in_flow = |bad: KeyError| bad.under(&["flow", name]);
        flow.check().map_err(in_flow)?;
        let other = match &flow.way {
            WayFile::To(name) => Some(("way", name)),
            _ => None,
        };
        for (key, name) in [("vm", &flow.vm)].into_iter().chain(other) {
            if !vms.contains(&name.as_str()) {
                let hint = hint(name, vms.iter().copied());
                return Err(in_flow(KeyError::new(
                    key,
                    format!("no VM is called `{name}`; {hint}"),
                )));
            }
        }
        let doms =
            flow_doms(&flow.vm, groups, is_net).map_err(|m| in_flow(KeyError::new("vm", m)))?;
        for (i, &dom) in doms.iter().enumerate() {
            let way = flow.way(i, &first, groups, is_net).map_err(in_flow)?;
            let Some(way) = way else { continue };
            links.flows.extend((0..flow.count).map(|_| flow.config(dom, way)));
        }
        if links.flows.len() > FLOWS_MAX {
            return Err(in_flow(KeyError::new(
                "count",
                format!("at most {FLOWS_MAX} flows in all"),
            )));
        }
        let group = groups.iter_mut().find(|group| group.name == flow.vm);
        if let (PaceFile::Requests(_), Some(group)) = (flow.pace, group) {
            let wanted = flow.requests.unwrap_or(0) * u64::from(flow.count);
            group.measures = Some(group.measures.unwrap_or(0) + wanted);
        }
    }
    for flow in &links.flows {
        let ends = [flow.sender(), flow.receiver()];
        for group in groups.iter_mut() {
            group.streams |= group.vms.iter().any(|vm| ends.contains(&Some(vm.dom)));
        }
    }
    Ok((io, links))
}

/// The VMs of the kind `name`; none if the case leaves them out.
fn flow_doms(
    name: &str,
    groups: &[VmKind],
    is_net: &dyn Fn(Dom) -> bool,
) -> Result<Vec<Dom>, String> {
    let Some(group) = groups.iter().find(|group| group.name == name) else {
        return Ok(Vec::new());
    };
    match group.vms.iter().find(|vm| !is_net(vm.dom)) {
        Some(_) => Err(format!("VM `{name}` has no interface: its workload is no net-guest")),
        None => Ok(group.vms.iter().map(|vm| vm.dom).collect()),
    }
}

impl NicFile {
    fn build(&self) -> Result<NicConfig, KeyError> {
        if !(16..=4096).contains(&self.ring) {
            return Err(KeyError::new("ring", format!("{} packets: 16 to 4096", self.ring)));
        }
        Ok(NicConfig {
            moderation: self.moderation.map_or(Duration::ZERO, |span| span.0),
            ring: self.ring,
            piece_bytes: None,
        })
    }

    fn link(&self) -> Link {
        Link { rate: Rate::from_bits_per_s(self.rate.0), latency: self.latency.0 }
    }
}

impl FlowFile {
    fn check(&self) -> Result<(), KeyError> {
        for (key, bytes) in [("payload", self.payload), ("reply", self.reply)] {
            if !(1..=65_000).contains(&bytes) {
                return Err(KeyError::new(key, format!("{bytes} bytes: 1 to 65000")));
            }
        }
        if !(1..=64).contains(&self.count) {
            return Err(KeyError::new("count", format!("{} flows: 1 to 64", self.count)));
        }
        let gap = match self.pace {
            PaceFile::Open(gap) | PaceFile::Requests(gap) => Some(gap.0.mean()),
            PaceFile::Window(packets) if !(1..=4096).contains(&packets) => {
                let message = match packets {
                    0 => "a window of no packets: 1 to 4096".to_string(),
                    _ => format!("a window of {packets} packets: 1 to 4096"),
                };
                return Err(KeyError::new("pace", message));
            }
            PaceFile::Window(_) | PaceFile::Line => None,
        };
        if let Some(requests) = self.requests {
            if !matches!(self.pace, PaceFile::Requests(_)) {
                let message = "requests to measure, but the pace is not `requests`";
                return Err(KeyError::new("requests", message));
            }
            if !(1..=100_000_000).contains(&requests) {
                return Err(KeyError::new(
                    "requests",
                    format!("{requests} requests: 1 to 100000000"),
                ));
            }
        }
        if matches!(&self.way, WayFile::To(name) if *name == self.vm) {
            let message = format!("from `{}` to itself: give another VM", self.vm);
            return Err(KeyError::new("way", message));
        }
        if gap.is_some_and(|gap| gap < Duration::from_ns(10)) {
            return Err(KeyError::new("pace", "gap of at least 10ns on average"));
        }
        if !matches!(self.way, WayFile::In(_)) && matches!(self.pace, PaceFile::Line) {
            return Err(KeyError::new(
                "pace",
                "a guest sends as it has room: { window = 64 }, { open = GAP } or { requests = GAP }",
            ));
        }
        Ok(())
    }

    /// Where the flow of VM number `i` of its kind runs; `None` if there is nobody to go to.
    fn way(
        &self,
        i: usize,
        nics: &BTreeMap<&str, (u16, u16)>,
        groups: &[VmKind],
        is_net: &dyn Fn(Dom) -> bool,
    ) -> Result<Option<Way>, KeyError> {
        let nic = |name: &String| match nics.get(name.as_str()) {
            Some((first, count)) => Ok(first + i as u16 % count),
            None => {
                let hint = hint(name, nics.keys().copied());
                Err(KeyError::new("way", format!("no NIC is called `{name}`; {hint}")))
            }
        };
        Ok(Some(match &self.way {
            WayFile::In(name) => Way::In { nic: nic(name)? },
            WayFile::Out(name) => Way::Out { nic: nic(name)? },
            WayFile::To(name) => {
                let doms = flow_doms(name, groups, is_net).map_err(|m| KeyError::new("way", m))?;
                if doms.is_empty() {
                    return Ok(None);
                }
                Way::Between { to: doms[i % doms.len()] }
            }
        }))
    }

    fn config(&self, dom: Dom, way: Way) -> HostFlow {
        let pace = match self.pace {
            PaceFile::Line => Pace::Open(None),
            PaceFile::Open(gap) => Pace::Open(Some(gap.0)),
            PaceFile::Window(packets) => Pace::Window(packets),
            PaceFile::Requests(gap) => Pace::Requests(gap.0),
        };
        HostFlow {
            dom,
            way,
            pace,
            payload_bytes: self.payload,
            reply_bytes: self.reply,
            service: self.service.map_or(Duration::ZERO, |span| span.0),
            requests: self.requests.unwrap_or(u64::MAX),
            warmup: self.warmup.map_or(Duration::ZERO, |span| span.0),
            until: self.until.map_or(Duration::MAX, |span| span.0),
        }
    }
}
