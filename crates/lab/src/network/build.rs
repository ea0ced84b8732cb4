//! From what is written to a network that can be run.

use std::collections::BTreeMap;
use std::path::Path;

use lowtail_engine::{Duration, Rng};
use lowtail_host::{Dom, Host};
use lowtail_net::net::SharedConfig;
use lowtail_net::traffic::permutation;
use lowtail_net::{
    End, EndConfig, LinkConfig, Net, NetConfig, NicConfig, Place, Port, Shape, TrafficConfig,
};

use super::file::NetworkFile;
use super::list;
use super::queue::QueueFile;
use super::traffic::{EndFile, NamesFile, PairsFile, Senders, TrafficFile};
use super::world::{CheckEvery, Home, World};
use crate::error::{KeyError, hint};
use crate::limits::PORT_BYTES_MAX;

/// Steps between two looks whether all has been measured.
const STEPS_PER_LOOK: u32 = 256;

/// Most conversations of a network.
const PAIRS_MAX: usize = 1 << 20;

/// A network ready to be built.
#[derive(Debug, Clone)]
pub struct NetworkCase {
    file: NetworkFile,
    config: NetConfig,
    shared: Option<SharedConfig>,
    /// Links to hosts, and those between switches.
    links: (LinkConfig, LinkConfig),
    /// Hosts by number.
    pub machines: Vec<String>,
    /// Names of the traffic, in the order of its numbers.
    pub traffic: Vec<String>,
    /// Where each end is.
    pub homes: Vec<Home>,
    /// What each end is called in the file.
    pub ends: Vec<String>,
}

/// An end in the making.
pub(crate) struct EndSpec {
    /// The table in the file; several VMs may have one.
    pub(crate) name: String,
    /// The host.
    pub(crate) machine: u32,
    /// Host (among those simulated) and VM, if it is one.
    pub(crate) home: Option<(usize, u16)>,
}

impl EndSpec {
    fn home(&self) -> Home {
        match self.home {
            Some((host, dom)) => Home::Vm { host, dom: Dom(dom) },
            None => Home::Remote { nic: 0 },
        }
    }
}

/// The host called `name`.
pub(crate) fn machine(name: &str, machines: &[String]) -> Result<u32, String> {
    if let Some(at) = machines.iter().position(|machine| machine == name) {
        return Ok(at as u32);
    }
    let hint = hint(name, machines.iter().map(String::as_str));
    Err(format!("no host is called `{name}`; {hint}"))
}

/// Most ends of a network: numbers up to `LT_FLOW_VM_MAX` of `policy/flow.h`.
const ENDS_MAX: usize = 65_535;

/// Builds the network of a point; `vms` are the ends that are VMs of simulated hosts. Paths of lists start at `base`.
pub(crate) fn build(
    file: &NetworkFile,
    ends: &BTreeMap<String, EndFile>,
    traffic: &BTreeMap<String, TrafficFile>,
    vms: Vec<EndSpec>,
    base: Option<&Path>,
) -> Result<NetworkCase, KeyError> {
    let in_network = |bad: KeyError| bad.under(&["network"]);
    let (shape, machines) =
        file.topology.build().map_err(|bad| in_network(bad.under(&["topology"])))?;
    for (key, queue) in [("queue", &file.queue), ("switch", &file.switch)] {
        if let Some(queue) = queue {
            queue.check(0).map_err(|bad| in_network(bad.under(&[key])))?;
        }
    }
    let link = file.link.build().map_err(|bad| in_network(bad.under(&["link"])))?;
    let fabric = file.fabric.map_or(Ok(link), |fabric| fabric.build());
    let fabric = fabric.map_err(|bad| in_network(bad.under(&["fabric"])))?;
    let shared = file.shared.map(|shared| shared.build().map_err(in_network)).transpose()?;
    if !(8..=65_536).contains(&file.nic.ring) || !(16..=4096).contains(&file.nic.receive_ring) {
        let message = "a ring of 8 to 65536 descriptors, a receive ring of 16 to 4096 packets";
        return Err(in_network(KeyError::new("nic", message)));
    }
    let mut specs = vms;
    for (name, end) in ends {
        let machine = machine(&end.on, &machines)
            .map_err(|m| KeyError::new("on", m).under(&["end", name]))?;
        specs.push(EndSpec { name: name.clone(), machine, home: None });
    }
    for (i, name) in machines.iter().enumerate() {
        if specs.iter().all(|spec| spec.machine != i as u32) {
            specs.push(EndSpec { name: name.clone(), machine: i as u32, home: None });
        }
    }
    if specs.len() > ENDS_MAX {
        let message =
            format!("{} ends: at most {ENDS_MAX}, which the flow rule can name", specs.len());
        return Err(in_network(KeyError::new("topology", message)));
    }
    let mut names: BTreeMap<&str, Vec<End>> = BTreeMap::new();
    for (i, spec) in specs.iter().enumerate() {
        names.entry(&spec.name).or_default().push(End(i as u32));
    }
    let mut configs: Vec<TrafficConfig> = Vec::new();
    let mut pairs_all = 0;
    for (name, kind) in traffic {
        let bad =
            |key: &str, message: String| KeyError::new(key, message).under(&["traffic", name]);
        if !(1..=1024).contains(&kind.count) {
            return Err(bad("count", format!("{} conversations: 1 to 1024", kind.count)));
        }
        let (mut pairs, mut flows) = (Vec::new(), Vec::new());
        match kind.senders().map_err(|bad| bad.under(&["traffic", name]))? {
            Senders::Named { from, to } => {
                let from = find(from, &names).map_err(|m| bad("from", m))?;
                let to = find(to, &names).map_err(|m| bad("to", m))?;
                // Who talks with whom is part of the scenario, not of chance: the same whatever the seed.
                let rng = Rng::new(0, &format!("pairs {name}"));
                pairs = find_pairs(kind, &from, &to, rng).map_err(|m| bad("pairs", m))?;
            }
            Senders::Listed(file) => {
                flows = list::read(base, file, &names).map_err(|m| bad("flows", m))?;
            }
        }
        pairs_all += pairs.len() + flows.len();
        if pairs_all > PAIRS_MAX {
            return Err(bad(
                "pairs",
                format!("{pairs_all} conversations by here: at most {PAIRS_MAX}"),
            ));
        }
        let config = kind.build(name, pairs, flows, file.link.rate);
        configs.push(config.map_err(|bad| bad.under(&["traffic", name]))?);
    }
    check_ports(file, &shape, specs.len() as u64).map_err(in_network)?;
    if configs.is_empty() {
        return Err(KeyError::new("traffic", "a network without traffic"));
    }
    let config = NetConfig {
        shape,
        ends: specs
            .iter()
            .map(|spec| EndConfig { host: spec.machine, attached: spec.home.is_some() })
            .collect(),
        traffic: configs,
        datagrams: Vec::new(),
        local_delay: file.local_delay.0,
    };
    Ok(NetworkCase {
        file: file.clone(),
        config,
        shared,
        links: (link, fabric),
        machines,
        traffic: traffic.keys().cloned().collect(),
        homes: specs.iter().map(EndSpec::home).collect(),
        ends: specs.iter().map(|spec| spec.name.clone()).collect(),
    })
}

/// Refuses queues and rings that together begin with more memory than there may be.
fn check_ports(file: &NetworkFile, shape: &Shape, ends: u64) -> Result<(), KeyError> {
    let (hosts, fabric) = (u64::from(shape.hosts()), u64::from(shape.fabric()));
    let own = (hosts, &file.queue, "queue");
    let switches = (hosts + 2 * fabric, &file.switch, "switch");
    let mut all = 0_u64;
    for (ports, queue, key) in [own, switches] {
        let Some(queue) = queue else { continue };
        let ring = if key == "queue" { 16 * u64::from(file.nic.ring) } else { 0 };
        let each = queue.bytes(ends).saturating_add(ring);
        all = all.saturating_add(ports.saturating_mul(each));
        if all > PORT_BYTES_MAX {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            let message = format!(
                "{} at {ports} ports takes {} MiB at least: at most {} MiB for all queues of a network",
                queue.describe(),
                mib(all),
                mib(PORT_BYTES_MAX)
            );
            return Err(KeyError::new(key, message));
        }
    }
    Ok(())
}

/// The ends that `names` means.
fn find(names: &NamesFile, known: &BTreeMap<&str, Vec<End>>) -> Result<Vec<End>, String> {
    let mut ends = Vec::new();
    for name in names.list() {
        if name == "all" {
            ends.extend(known.values().flatten());
        } else if let Some(more) = known.get(name.as_str()) {
            ends.extend(more);
        } else {
            let hint = hint(name, known.keys().copied());
            return Err(format!("no end is called `{name}`; {hint}"));
        }
        if ends.len() > PAIRS_MAX {
            return Err(format!("{} ends by `{name}`: at most {PAIRS_MAX}", ends.len()));
        }
    }
    ends.sort();
    Ok(ends)
}

/// Who talks with whom.
fn find_pairs(
    file: &TrafficFile,
    from: &[End],
    to: &[End],
    mut rng: Rng,
) -> Result<Vec<(End, End)>, String> {
    let mut pairs = Vec::new();
    match file.pairs {
        PairsFile::InTurn => {
            let n = from.len().max(to.len());
            pairs.extend((0..n).map(|i| (from[i % from.len()], to[i % to.len()])));
        }
        PairsFile::All => {
            if from.len().saturating_mul(to.len()) > PAIRS_MAX {
                return Err(format!(
                    "{} times {} pairs: at most {PAIRS_MAX}",
                    from.len(),
                    to.len()
                ));
            }
            pairs.extend(from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b))));
        }
        PairsFile::Permutation => {
            pairs.extend(permutation(from, &mut rng));
        }
    }
    pairs.retain(|(a, b)| a != b);
    if pairs.is_empty() {
        return Err("there is no second end to talk to".to_string());
    }
    let count = file.count as usize;
    if pairs.len().saturating_mul(count) > PAIRS_MAX {
        let pairs = pairs.len();
        return Err(format!("{pairs} pairs with {count} conversations each: at most {PAIRS_MAX}"));
    }
    Ok(pairs.iter().flat_map(|&pair| std::iter::repeat_n(pair, count)).collect())
}

impl NetworkCase {
    /// What is to be simulated.
    pub fn config(&self) -> &NetConfig {
        &self.config
    }

    pub(super) fn config_mut(&mut self) -> &mut NetConfig {
        &mut self.config
    }

    pub(super) fn file(&self) -> &NetworkFile {
        &self.file
    }

    /// Makes each link of a host, and each between switches, so much longer.
    pub(super) fn add_delay(&mut self, host: Duration, fabric: Duration) {
        self.links.0.delay += host;
        self.links.1.delay += fabric;
    }

    /// How many things it is made of.
    pub(crate) fn parts(&self) -> usize {
        let traffic = self.config.traffic.iter();
        self.machines.len()
            + self.ends.len()
            + traffic.map(|t| t.pairs.len() + t.flows.len()).sum::<usize>()
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.config.shape
    }

    /// One line about its queues.
    pub(crate) fn describe(&self) -> String {
        let machines = match self.machines.len() {
            1 => "1 host".to_string(),
            n => format!("{n} hosts"),
        };
        let name = |queue: &Option<QueueFile>| {
            queue.as_ref().map_or_else(|| "fifo".to_string(), QueueFile::describe)
        };
        format!("{machines}; NICs {}; switches {}", name(&self.file.queue), name(&self.file.switch))
    }

    /// Bits per second of links to hosts, and of those between switches.
    pub(crate) fn rates(&self) -> (u64, u64) {
        let link = self.file.link.rate.0;
        (link, self.file.fabric.as_ref().map_or(link, |fabric| fabric.rate.0))
    }

    /// The network with its hosts, at rest.
    pub(crate) fn world(&self, hosts: Vec<Host>, seed: u64) -> World {
        World::new(self.net(seed), hosts, self.homes.clone(), CheckEvery::Steps(STEPS_PER_LOOK))
    }

    /// The network at rest.
    pub fn net(&self, seed: u64) -> Net {
        let file = &self.file;
        let (link, fabric) = self.links;
        let nic = NicConfig { ring: file.nic.ring, bql: file.nic.bql, whole: file.nic.whole };
        let ends = self.config.ends.len() as u32;
        let ports = self.config.shape.places().enumerate().map(|(i, place)| {
            // Hashes differ from port to port, as those of real queues do.
            let seed = seed.wrapping_add(i as u64);
            let queue = |queue: &Option<QueueFile>| Some(queue.as_ref()?.build(ends, seed));
            match place {
                Place::Host(_) => match queue(&file.queue) {
                    Some(queue) => Port::queued(link, queue, Some(nic)),
                    None => {
                        Port::plain(LinkConfig { buffer_bytes: 1 << 40, mark_bytes: None, ..link })
                    }
                },
                Place::ToHost(_) => match queue(&file.switch) {
                    Some(queue) => Port::queued(link, queue, None),
                    None => Port::plain(link),
                },
                Place::Up | Place::Down => match queue(&file.switch) {
                    Some(queue) => Port::queued(fabric, queue, None),
                    None => Port::plain(fabric),
                },
            }
        });
        let mut net = Net::new(&self.config, ports.collect(), seed);
        if let Some(shared) = self.shared {
            net.share(shared, &self.config.shape);
        }
        net
    }

    /// The NIC of a simulated host.
    pub(crate) fn host_nic(file: &NetworkFile) -> lowtail_host::io::nic::NicConfig {
        let piece_bytes = file.queue.as_ref().and_then(QueueFile::pieces);
        lowtail_host::io::nic::NicConfig {
            moderation: file.nic.moderation.0,
            ring: file.nic.receive_ring,
            piece_bytes,
        }
    }
}
