//! The links of a host that is simulated alone: one behind each of its NICs, with a host at the
//! far end, and the datagram flows between its VMs and those hosts.

use lowtail_engine::{Distribution, Duration};
use lowtail_host::{Config, Dom, Host};
use lowtail_net::datagram::Pace;
use lowtail_net::port::PortId;
use lowtail_net::{
    DatagramConfig, DatagramFlow, End, EndConfig, LinkConfig, Net, NetConfig, Place, Port, Rate,
    Shape,
};

use super::world::{CheckEvery, Home, World};

/// How much a NIC has waiting for its link at most: Linux's `txqueuelen` of 1000 packets at
/// 1 Gbit/s.
const NIC_BACKLOG: Duration = Duration::from_ms(12);
/// A window's process wakes for the first time so long after its VM has booted.
const PROCESS_START: Distribution = Distribution::Fixed(Duration::from_us(100));
/// When a host outside begins.
const MACHINE_START: Distribution = Distribution::Uniform(Duration::ZERO, Duration::from_ms(1));
/// Events between two looks whether all has been measured, as in [`Host::run`].
const EVENTS_PER_LOOK: u64 = 64;

/// A link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// How fast, each way.
    pub rate: Rate,
    /// From the last bit sent to the process at the far end.
    pub latency: Duration,
}

/// Where a flow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the host behind this NIC to the VM.
    In {
        /// The NIC.
        nic: u16,
    },
    /// From the VM to the host behind this NIC.
    Out {
        /// The NIC.
        nic: u16,
    },
    /// From the VM to another one on this host.
    Between {
        /// The VM that receives.
        to: Dom,
    },
}

/// A datagram flow of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFlow {
    /// The VM: the one that receives what comes in, and sends what goes out.
    pub dom: Dom,
    /// Where it runs.
    pub way: Way,
    /// When packets are sent.
    pub pace: Pace,
    /// Payload of a packet, 1 to 65,000; more than 1472 is an aggregate.
    pub payload_bytes: u32,
    /// Payload of an answer.
    pub reply_bytes: u32,
    /// Work of a process in the VM that receives for each packet; zero: its kernel answers.
    pub service: Duration,
    /// Requests to measure.
    pub requests: u64,
    /// What comes before is not measured.
    pub warmup: Duration,
    /// After this nothing is sent any more.
    pub until: Duration,
}

impl HostFlow {
    /// The VM that sends, if one does.
    pub fn sender(&self) -> Option<Dom> {
        match self.way {
            Way::In { .. } => None,
            Way::Out { .. } | Way::Between { .. } => Some(self.dom),
        }
    }

    /// The VM that receives, if one does.
    pub fn receiver(&self) -> Option<Dom> {
        match self.way {
            Way::In { .. } => Some(self.dom),
            Way::Out { .. } => None,
            Way::Between { to } => Some(to),
        }
    }

    /// The VM whose figures it counts for: the one that receives, or that asks another one.
    pub fn counts_for(&self) -> Dom {
        match self.pace {
            Pace::Requests(_) => self.dom,
            Pace::Open(_) | Pace::Window(_) => self.receiver().unwrap_or(self.dom),
        }
    }

    /// The VMs of which a process sends, and works for it.
    fn processes(&self) -> (Option<Dom>, Option<Dom>) {
        (self.sender(), self.receiver().filter(|_| !self.service.is_zero()))
    }
}

/// Links and flows of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostLinks {
    /// The link behind each NIC.
    pub links: Vec<Link>,
    /// What the NICs are called; without a name they have their number.
    pub names: Vec<String>,
    /// The flows.
    pub flows: Vec<HostFlow>,
}

impl HostLinks {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.flows.is_empty()
    }

    /// How the link of a port is called: as its NIC, or `to:` and that for what comes in.
    pub(crate) fn name(&self, port: PortId) -> String {
        let n = self.links.len();
        let nic = |i: usize| self.names.get(i).cloned().unwrap_or_else(|| format!("NIC {i}"));
        // Those from the far ends are first.
        match port.index().checked_sub(n) {
            Some(i) => nic(i),
            None => format!("to:{}", nic(port.index())),
        }
    }

    /// Gives the guests of `host` the processes that the flows need.
    pub fn add_processes(&self, host: &mut Config) {
        for (dom, vm) in host.vms.iter_mut().enumerate() {
            if let Some(net) = vm.workload.net_mut() {
                let here = |at: &Option<Dom>| at.is_some_and(|at| at.index() == dom);
                let ends = self.flows.iter().flat_map(|flow| {
                    let (sends, works) = flow.processes();
                    [sends, works]
                });
                net.processes = ends.filter(here).count() as u16;
            }
        }
    }

    /// The flows that count for `dom`, with what `net` says of them.
    pub fn flows_of<'n>(
        &'n self,
        dom: Dom,
        net: &'n Net,
    ) -> impl Iterator<Item = &'n DatagramFlow> + 'n {
        let flows = self.flows.iter().zip(net.datagrams());
        flows.filter(move |(flow, _)| flow.counts_for() == dom).map(|(_, flow)| flow)
    }

    /// The number of the next process of each VM.
    fn config(&self, vms: usize) -> NetConfig {
        let mut taken = vec![0; vms];
        let mut take = |dom: Option<Dom>| {
            dom.map_or(0, |dom| {
                taken[dom.index()] += 1;
                taken[dom.index()] - 1
            })
        };
        let vm = |dom: Dom| End(u32::from(dom.0));
        let machine = |nic: u16| End(vms as u32 + u32::from(nic));
        let datagrams = self.flows.iter().map(|flow| {
            let (src, dst, start) = match flow.way {
                Way::In { nic } => (machine(nic), vm(flow.dom), MACHINE_START),
                Way::Out { nic } => (vm(flow.dom), machine(nic), PROCESS_START),
                Way::Between { to } => (vm(flow.dom), vm(to), PROCESS_START),
            };
            let (sends, works) = flow.processes();
            DatagramConfig {
                src,
                dst,
                pace: flow.pace,
                start,
                payload_bytes: flow.payload_bytes,
                reply_bytes: flow.reply_bytes,
                service: flow.service,
                src_process: take(sends),
                dst_process: take(works),
                requests: flow.requests,
                warmup: flow.warmup,
                until: flow.until,
            }
        });
        let datagrams = datagrams.collect();
        let links = self.links.len() as u32;
        let own = (0..vms).map(|_| EndConfig { host: 0, attached: true });
        let far = (0..links).map(|link| EndConfig { host: 1 + link, attached: false });
        NetConfig {
            shape: Shape::Links { links },
            ends: own.chain(far).collect(),
            traffic: Vec::new(),
            datagrams,
            local_delay: Duration::ZERO,
        }
    }

    /// The host with its links, at rest.
    pub fn world(&self, host: Host, seed: u64) -> World {
        let vms = host.state().doms.len();
        let config = self.config(vms);
        let link = |machine: u32| &self.links[machine as usize - 1];
        let ports = config.shape.places().map(|place| {
            // A host outside has room for all that it sends.
            let (machine, buffer_bytes) = match place {
                Place::ToHost(machine) => (machine, link(machine).rate.bytes(NIC_BACKLOG)),
                Place::Host(machine) => (machine, 1 << 40),
                Place::Up | Place::Down => (1, 1 << 40),
            };
            let Link { rate, latency: delay } = *link(machine);
            Port::plain(LinkConfig {
                rate,
                delay,
                buffer_bytes,
                mark_bytes: None,
                loss_per_billion: 0,
            })
        });
        let net = Net::new(&config, ports.collect(), seed);
        let vms = (0..vms).map(|dom| Home::Vm { host: 0, dom: Dom(dom as u16) });
        let machines = (0..self.links.len()).map(|nic| Home::Remote { nic: nic as u16 });
        let homes = vms.chain(machines).collect();
        World::new(net, vec![host], homes, CheckEvery::Events(EVENTS_PER_LOOK))
    }
}
