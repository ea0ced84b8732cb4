//! Links that are looked at more closely: their frames, and what waits for them.

use std::collections::BTreeMap;

use lowtail_engine::Duration;
use lowtail_net::net::TapConfig;
use lowtail_net::pcapng::Head;
use lowtail_net::port::PortId;
use lowtail_net::traffic::{TrafficConfig, TrafficStats};
use lowtail_net::{BlameConfig, Net};

use super::blame::{self, QueueBlame};
use super::build::{NetworkCase, machine};
use super::outcome::{Captured, Completion, Matrix, NetworkOutcome, QueueTrack};
use super::world::Home;
use crate::case::spec::Case;

/// Most ports whose queues are sampled without being asked for by name.
const PORTS_MAX: usize = 64;
/// Samples of all ports of a case together, and of one port at most.
const SAMPLES_ALL: usize = 1 << 20;
const SAMPLES_PORT: usize = 1 << 16;

/// Most rows of the matrix of who sends to whom.
const SIDE_MAX: u32 = 64;

/// Which links of a network to look at, and at what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// Links by name: `A` from host A, `to:A` towards it, `up:0` and `down:0` between switches, by
    /// number. If there are none: for frames those from and to the first host, for queues those from
    /// and to the first 32.
    pub links: Vec<String>,
    /// How many frames of each link to keep, the first ones; 0 for none.
    pub frames: usize,
    /// Whether to keep how much waits.
    pub queues: bool,
}

/// A rate as people say it.
fn rate(bits_per_s: u64) -> String {
    let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    let unit = units.into_iter().find(|(unit, _)| bits_per_s >= *unit);
    let (unit, name) = unit.unwrap_or((1, "bit/s"));
    format!("{} {name}", crate::figure::figure(bits_per_s as f64 / unit as f64))
}

impl NetworkCase {
    /// The port that sends on the link called `name`.
    pub(crate) fn link(&self, name: &str) -> Result<PortId, String> {
        let hosts = self.machines.len() as u32;
        // A host may be called like anything else.
        if let Some(at) = self.machines.iter().position(|machine| machine == name) {
            return Ok(PortId(at as u32));
        }
        if let Some(name) = name.strip_prefix("to:") {
            return machine(name, &self.machines).map(|at| PortId(hosts + at));
        }
        let fabric = self.shape().fabric();
        for (prefix, first) in [("up:", 2 * hosts), ("down:", 2 * hosts + fabric)] {
            let Some(number) = name.strip_prefix(prefix) else { continue };
            return match number.parse::<u32>() {
                Ok(number) if number < fabric => Ok(PortId(first + number)),
                _ if fabric == 0 => Err(format!("no link is called `{name}`: there is one switch")),
                _ => Err(format!(
                    "no link is called `{name}`: between switches there are {prefix}0 to {prefix}{}",
                    fabric - 1
                )),
            };
        }
        machine(name, &self.machines).map(PortId).map_err(|message| {
            format!("no link is called `{name}`; it is a host, or to:HOST ({message})")
        })
    }

    /// How the link of a port is called, and what it is.
    fn link_name(&self, port: PortId) -> (String, String) {
        let hosts = self.machines.len();
        let fabric = self.shape().fabric() as usize;
        let n = port.index();
        if n < hosts {
            let name = &self.machines[n];
            return (name.clone(), format!("from the NIC of {name}"));
        }
        if n < 2 * hosts {
            let name = &self.machines[n - hosts];
            return (format!("to:{name}"), format!("from the switch to {name}"));
        }
        let n = n - 2 * hosts;
        match n < fabric {
            true => (format!("up:{n}"), "between switches, towards the core".to_string()),
            false => {
                let text = "between switches, away from the core".to_string();
                (format!("down:{}", n - fabric), text)
            }
        }
    }

    /// What the ends are called: hosts, or what is on them.
    fn end_names(&self, case: &Case) -> Vec<String> {
        let name = |(i, name): (usize, &String)| {
            let machine = &self.machines[self.config().ends[i].host as usize];
            let name = match self.homes[i] {
                Home::Vm { host, dom } => &case.hosts[host].config.vms[dom.index()].name,
                Home::Remote { .. } => name,
            };
            if name == machine { name.clone() } else { format!("{name}.{machine}") }
        };
        self.ends.iter().enumerate().map(name).collect()
    }

    /// Whether the links that `watch` names exist.
    pub(crate) fn check(&self, watch: &Watch) -> Result<(), String> {
        watch.links.iter().try_for_each(|link| self.link(link).map(|_| ()))
    }

    /// Has `net` count whose bytes are in front of whose packets.
    pub(crate) fn blame(&self, net: &mut Net) {
        let (traffic, _) = blame::classes(&self.traffic, net.ports().len());
        net.blame(BlameConfig { traffic, datagrams: Vec::new() });
    }

    /// What it has counted.
    pub(crate) fn queue_blame(&self, net: &Net) -> QueueBlame {
        let names = blame::classes(&self.traffic, net.ports().len()).1;
        QueueBlame::of(net, names, |port| self.link_name(port).0)
    }

    /// Sets the taps that `watch` asks for.
    pub(crate) fn tap(&self, net: &mut Net, watch: &Watch) {
        let hosts = self.machines.len() as u32;
        let named: Vec<PortId> =
            watch.links.iter().filter_map(|link| self.link(link).ok()).collect();
        let mut taps: Vec<(PortId, TapConfig)> = Vec::new();
        if watch.frames > 0 {
            let first = [PortId(0), PortId(hosts)];
            let ports = if named.is_empty() { &first[..] } else { &named };
            let config = TapConfig { frames: watch.frames, samples: 0 };
            taps.extend(ports.iter().map(|&port| (port, config)));
        }
        if watch.queues {
            let few = hosts.min(PORTS_MAX as u32 / 2);
            let own = (0..few).flat_map(|i| [PortId(i), PortId(hosts + i)]);
            let ports = if named.is_empty() { own.collect() } else { named };
            let samples = (SAMPLES_ALL / ports.len().max(1)).min(SAMPLES_PORT);
            for port in ports {
                match taps.iter_mut().find(|tap| tap.0 == port) {
                    Some((_, config)) => config.samples = samples,
                    None => taps.push((port, TapConfig { frames: 0, samples })),
                }
            }
        }
        for (port, config) in taps {
            net.tap(port, config);
        }
    }

    /// The frames of the links that were to be kept, as a file.
    pub(crate) fn captured(&self, case: &Case, net: &Net, about: &str) -> Option<Captured> {
        let taps = || net.taps().iter().filter(|tap| tap.keeps_frames());
        taps().next()?;
        // Readers of the file show these on a terminal, too.
        let shown = |text: &str| lowtail_out::line(text).into_owned();
        let links: Vec<_> = taps().map(|tap| self.link_name(tap.port)).collect();
        let links: Vec<_> = links.iter().map(|(name, about)| (shown(name), shown(about))).collect();
        let ends: Vec<_> = self.end_names(case).iter().map(|name| shown(name)).collect();
        let application = format!("lowtail {}", crate::VERSION);
        let about = shown(about);
        let head = Head { application: &application, comment: &about };
        let file = net.write_frames(Vec::new(), &head, &links, &ends);
        Some(Captured {
            file: file.expect("memory can be written to"),
            links: links.into_iter().map(|(name, _)| name).collect(),
            frames: taps().map(|tap| tap.frames().len() as u64).sum(),
            more: taps().map(|tap| tap.more()).sum(),
        })
    }

    /// What it looks like, and who has sent to whom; hosts by bins if there are many.
    pub(crate) fn outline(&self, net: &Net) -> NetworkOutcome {
        let hosts = self.machines.len() as u32;
        let per = hosts.div_ceil(SIDE_MAX).max(1);
        let mut cells: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for (from, to, bits_per_s) in net.matrix() {
            *cells.entry((from / per, to / per)).or_insert(0.0) += bits_per_s / 1e6;
        }
        let cells = cells
            .into_iter()
            .map(|((from, to), mbit_per_second)| (from, to, mbit_per_second))
            .collect();
        let (link, fabric) = self.rates();
        NetworkOutcome {
            shape: *self.shape(),
            machines: if per == 1 { self.machines.clone() } else { Vec::new() },
            link: rate(link),
            fabric: rate(fabric),
            matrix: Matrix { side: hosts.div_ceil(per), per, cells },
        }
    }

    /// How the transfers of its lists went.
    pub(crate) fn completions(&self, net: &Net) -> Vec<Completion> {
        let all = self.traffic.iter().zip(&self.config().traffic).zip(net.stats());
        let of = |((name, config), stats): ((&String, &TrafficConfig), &TrafficStats)| {
            let both = config.flows.iter().zip(&stats.completions);
            let done = both.map(|(flow, &took)| Completion {
                traffic: name.clone(),
                start: config.start + flow.start,
                source: self.ends[flow.src.index()].clone(),
                destination: self.ends[flow.dst.index()].clone(),
                bytes: flow.bytes,
                took: (took < Duration::MAX).then_some(took),
            });
            done.collect::<Vec<_>>()
        };
        all.flat_map(of).collect()
    }

    /// What has waited at the ports that were sampled.
    pub(crate) fn queues(&self, net: &Net) -> Vec<QueueTrack> {
        let mut tracks = Vec::new();
        for tap in net.taps().iter().filter(|tap| tap.keeps_samples()) {
            let (name, _) = self.link_name(tap.port);
            let mut add = |name: String, bytes: &dyn Fn(&lowtail_net::Sample) -> u64| {
                let mut samples: Vec<(lowtail_engine::Time, u64)> = Vec::new();
                for sample in tap.samples() {
                    if samples.last().is_none_or(|last| last.1 != bytes(sample)) {
                        samples.push((sample.at, bytes(sample)));
                    }
                }
                tracks.push(QueueTrack { name, samples, cut: tap.cut() });
            };
            if net.ports()[tap.port.index()].has_ring() {
                add(format!("{name}: queue"), &|sample| sample.queue);
                add(format!("{name}: ring"), &|sample| sample.ring);
            } else {
                add(name, &|sample| sample.queue);
            }
        }
        tracks
    }
}
