//! Topologies: which hosts and switches there are, and the way from one host to another.
//!
//! Ways follow from the shape by arithmetic, and among equal ones from a hash of the flow (ECMP):
//! a flow keeps its way.

use crate::port::PortId;

/// What a network looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All hosts at one switch.
    Star {
        /// Hosts.
        hosts: u32,
    },
    /// Two switches and one link between them.
    Dumbbell {
        /// Hosts at the one.
        left: u32,
        /// Hosts at the other.
        right: u32,
    },
    /// A machine, number 0, with a link to each of the others, and no switch.
    Links {
        /// The others.
        links: u32,
    },
    /// Pods of edge and aggregation switches, each edge switch with a link to each aggregation
    /// switch of its pod; core switches between the pods, those of a number shared out among the
    /// aggregation switches of that number.
    Clos(Clos),
}

/// Three layers of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clos {
    /// Pods.
    pub pods: u32,
    /// Edge switches of a pod.
    pub edges: u32,
    /// Aggregation switches of a pod.
    pub aggregations: u32,
    /// Core switches; a multiple of the aggregation switches of a pod.
    pub cores: u32,
    /// Hosts at an edge switch.
    pub hosts: u32,
}

impl Clos {
    /// The fat-tree of switches with `k` ports (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008): k
    /// pods, k^3/4 hosts. `k` is even and at least 2.
    pub fn fat_tree(k: u32) -> Self {
        let half = k / 2;
        Clos { pods: k, edges: half, aggregations: half, cores: half * half, hosts: half }
    }

    /// Uplinks of an aggregation switch.
    fn uplinks(&self) -> u32 {
        self.cores / self.aggregations
    }
}

/// Where a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At a host, towards its switch.
    Host(u32),
    /// At a switch, towards a host.
    ToHost(u32),
    /// Between switches, towards the core.
    Up,
    /// Between switches, away from the core.
    Down,
}

/// Mixes a seed and an id: SplitMix64's last steps (Steele, Lea, Flood, OOPSLA 2014).
fn mix(seed: u64) -> u64 {
    let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Shape {
    /// Hosts.
    pub fn hosts(&self) -> u32 {
        match *self {
            Shape::Star { hosts } => hosts,
            Shape::Dumbbell { left, right } => left + right,
            Shape::Links { links } => 1 + links,
            Shape::Clos(clos) => clos.pods * clos.edges * clos.hosts,
        }
    }

    /// Ports between switches, each way.
    pub fn fabric(&self) -> u32 {
        match *self {
            Shape::Star { .. } | Shape::Links { .. } => 0,
            Shape::Dumbbell { .. } => 1,
            Shape::Clos(c) => c.pods * (c.edges * c.aggregations + c.cores),
        }
    }

    /// Where each port is, by number: those of hosts, those towards hosts, those up, those down.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let (hosts, fabric) = (self.hosts(), self.fabric());
        // The ports of links are at the machines themselves: number 0 has none of its own.
        let first = u32::from(matches!(self, Shape::Links { .. }));
        let own = (first..hosts).map(Place::Host).chain((first..hosts).map(Place::ToHost));
        let up = (0..fabric).map(|_| Place::Up);
        own.chain(up).chain((0..fabric).map(|_| Place::Down))
    }

    /// The switch at which port number `port` is, `None` for a host's own. Switches are
    /// numbered from the edge to the core.
    pub fn switch_of(&self, port: PortId) -> Option<u32> {
        if let Shape::Links { .. } = self {
            return None;
        }
        let (hosts, fabric) = (self.hosts(), self.fabric());
        let n = port.0.checked_sub(hosts)?;
        if n < hosts {
            return Some(self.edge_of(n));
        }
        let n = n - hosts;
        let (up, n) = (n < fabric, n % fabric.max(1));
        Some(match *self {
            Shape::Star { .. } | Shape::Links { .. } => 0,
            // One up port leads right, one down port leads left.
            Shape::Dumbbell { .. } => u32::from(!up),
            Shape::Clos(c) => {
                let (edges, aggs) = (c.pods * c.edges, c.pods * c.aggregations);
                let low = edges * c.aggregations;
                if n < low {
                    let (edge, agg) = (n / c.aggregations, n % c.aggregations);
                    if up { edge } else { edges + edge / c.edges * c.aggregations + agg }
                } else {
                    let n = n - low;
                    let (pod, core) = (n / c.cores, n % c.cores);
                    if up {
                        edges + pod * c.aggregations + core / c.uplinks()
                    } else {
                        edges + aggs + core
                    }
                }
            }
        })
    }

    /// Switches.
    pub fn switches(&self) -> u32 {
        match *self {
            Shape::Star { .. } => 1,
            Shape::Links { .. } => 0,
            Shape::Dumbbell { .. } => 2,
            Shape::Clos(c) => c.pods * (c.edges + c.aggregations) + c.cores,
        }
    }

    /// The switch of host `host`.
    fn edge_of(&self, host: u32) -> u32 {
        match *self {
            Shape::Star { .. } | Shape::Links { .. } => 0,
            Shape::Dumbbell { left, .. } => u32::from(host >= left),
            Shape::Clos(c) => host / c.hosts,
        }
    }

    /// The ports on the way of the flow with this `hash` from host `from` to host `to`; none
    /// within a host.
    pub fn route(&self, from: u32, to: u32, hash: u64, out: &mut Vec<PortId>) {
        if from == to {
            return;
        }
        if let Shape::Links { links } = *self {
            out.extend(from.checked_sub(1).map(PortId));
            out.extend(to.checked_sub(1).map(|to| PortId(links + to)));
            return;
        }
        let (hosts, fabric) = (self.hosts(), self.fabric());
        let (up, down) = (2 * hosts, 2 * hosts + fabric);
        out.push(PortId(from));
        let (near, far) = (self.edge_of(from), self.edge_of(to));
        match *self {
            _ if near == far => {}
            Shape::Star { .. } | Shape::Links { .. } => {}
            Shape::Dumbbell { .. } => out.push(PortId(if near == 0 { up } else { down })),
            Shape::Clos(c) => {
                // Switches decide for themselves, each with a hash of its own.
                let agg = (mix(hash) % u64::from(c.aggregations)) as u32;
                let low = c.pods * c.edges * c.aggregations;
                out.push(PortId(up + near * c.aggregations + agg));
                let (here, there) = (near / c.edges, far / c.edges);
                if here != there {
                    let uplink = (mix(hash.rotate_left(32) ^ u64::from(agg))
                        % u64::from(c.uplinks())) as u32;
                    let core = agg * c.uplinks() + uplink;
                    out.push(PortId(up + low + here * c.cores + core));
                    out.push(PortId(down + low + there * c.cores + core));
                }
                out.push(PortId(down + far * c.aggregations + agg));
            }
        }
        out.push(PortId(hosts + to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each step of a way starts at the switch where the last one ended.
    #[test]
    fn ways_hang_together() {
        let tree = Clos { pods: 4, edges: 4, aggregations: 4, cores: 8, hosts: 8 };
        let shapes = [
            Shape::Star { hosts: 5 },
            Shape::Dumbbell { left: 2, right: 3 },
            Shape::Clos(Clos::fat_tree(4)),
            Shape::Clos(Clos::fat_tree(8)),
            Shape::Clos(tree),
        ];
        for shape in shapes {
            let places: Vec<Place> = shape.places().collect();
            let hosts = shape.hosts();
            for from in 0..hosts {
                for to in 0..hosts {
                    let mut way = Vec::new();
                    shape.route(from, to, mix(u64::from(from * 977 + to)), &mut way);
                    if from == to {
                        assert!(way.is_empty());
                        continue;
                    }
                    assert_eq!(places[way[0].index()], Place::Host(from));
                    assert_eq!(places[way[way.len() - 1].index()], Place::ToHost(to));
                    assert!(way.iter().all(|port| port.index() < places.len()));
                    // The reverse of a link is at the switch where the link ends.
                    for pair in way[1..].windows(2) {
                        let (a, b) = (shape.switch_of(pair[0]), shape.switch_of(pair[1]));
                        assert_ne!(a, b, "{shape:?} {from} {to} {way:?}");
                    }
                    let switches: Vec<_> = way[1..].iter().map(|&p| shape.switch_of(p)).collect();
                    assert_eq!(switches.first(), Some(&Some(shape.edge_of(from))));
                    assert_eq!(switches.last(), Some(&Some(shape.edge_of(to))));
                    assert!(switches.len() % 2 == 1 || matches!(shape, Shape::Dumbbell { .. }));
                }
            }
        }
        assert_eq!(Shape::Clos(Clos::fat_tree(8)).hosts(), 128);
        assert_eq!(Shape::Clos(tree).hosts(), 128);
        assert_eq!(Shape::Clos(tree).switches(), 40);
    }

    /// Links are numbered by their far ends, those from there first.
    #[test]
    fn links_have_a_port_at_each_end() {
        let shape = Shape::Links { links: 2 };
        let places: Vec<Place> = shape.places().collect();
        assert_eq!(places, [Place::Host(1), Place::Host(2), Place::ToHost(1), Place::ToHost(2)]);
        let way = |from, to| {
            let mut way = Vec::new();
            shape.route(from, to, 0, &mut way);
            way.iter().map(|port| port.0).collect::<Vec<u32>>()
        };
        assert_eq!((way(0, 2), way(2, 0), way(0, 0)), (vec![3], vec![1], vec![]));
        assert!((0..4).all(|port| shape.switch_of(PortId(port)).is_none()));
    }

    /// Many flows between two pods use all ways about equally often.
    #[test]
    fn hashes_spread() {
        let shape = Shape::Clos(Clos::fat_tree(8));
        let mut counts = std::collections::BTreeMap::new();
        for flow in 0..16_000u64 {
            let mut way = Vec::new();
            shape.route(0, 127, mix(flow), &mut way);
            *counts.entry(way[2]).or_insert(0u32) += 1;
        }
        // 16 ways, 1000 each; 5 standard deviations of a binomial are 153.
        assert_eq!(counts.len(), 16);
        assert!(counts.values().all(|&n| (847..=1153).contains(&n)), "{counts:?}");
    }
}
