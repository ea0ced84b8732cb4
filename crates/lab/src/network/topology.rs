//! The table `topology` of a network: hosts and switches.

use lowtail_net::{Clos, Shape};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::KeyError;
use crate::limits;

/// What a network looks like.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TopologyFile {
    /// All hosts at one switch.
    Star {
        /// Their names, or how many.
        hosts: HostsFile,
    },
    /// Two switches and a link between them.
    Dumbbell {
        /// Hosts at the one.
        left: HostsFile,
        /// Hosts at the other.
        right: HostsFile,
    },
    /// The fat-tree of switches with `k` ports: k^3/4 hosts.
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
        /// Hosts at an edge switch.
        #[schemars(range(min = 1, max = 64))]
        hosts: u32,
    },
}

/// Hosts: their names, or how many (then they are called 0, 1 and so on).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of hosts, or a list of names")]
pub enum HostsFile {
    /// So many.
    Number(#[schemars(range(min = 1, max = 8192))] u32),
    /// These.
    Names(#[schemars(length(min = 1))] Vec<String>),
}

impl HostsFile {
    /// Refuses more hosts than a network may have, and names that nobody could show.
    fn check(&self) -> Result<(), String> {
        let n = match self {
            HostsFile::Number(n) => *n as usize,
            HostsFile::Names(names) => names.len(),
        };
        if n == 0 || n > HOSTS_MAX as usize {
            return Err(format!("{n} hosts: 1 to {HOSTS_MAX}"));
        }
        match self {
            HostsFile::Names(names) => {
                names.iter().find_map(|name| limits::long_name(name)).map_or(Ok(()), Err)
            }
            HostsFile::Number(_) => Ok(()),
        }
    }

    fn names(&self, first: usize) -> Vec<String> {
        match self {
            HostsFile::Number(n) => (0..*n as usize).map(|i| (first + i).to_string()).collect(),
            HostsFile::Names(names) => names.clone(),
        }
    }
}

/// Most hosts of a network.
const HOSTS_MAX: u32 = 8192;
/// Most core switches.
const CORES_MAX: u32 = 4096;

impl TopologyFile {
    /// The shape, and the names of the hosts.
    pub(crate) fn build(&self) -> Result<(Shape, Vec<String>), KeyError> {
        // Before each gets a name.
        let (first, second) = match self {
            TopologyFile::Star { hosts } => (("hosts", hosts), None),
            TopologyFile::Dumbbell { left, right } => (("left", left), Some(("right", right))),
            TopologyFile::FatTree { .. } | TopologyFile::Tree { .. } => return self.shape(),
        };
        for (key, hosts) in [first].into_iter().chain(second) {
            hosts.check().map_err(|message| KeyError::new(key, message))?;
        }
        self.shape()
    }

    fn shape(&self) -> Result<(Shape, Vec<String>), KeyError> {
        let shape = match self {
            TopologyFile::Star { hosts } => {
                let names = hosts.names(0);
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
                    return Err(KeyError::new("k", format!("{k}: an even number from 2 to 48")));
                }
                Shape::Clos(Clos::fat_tree(*k))
            }
            &TopologyFile::Tree { pods, edges, aggregations, cores, hosts } => {
                let sizes = [("pods", pods), ("edges", edges), ("aggregations", aggregations)];
                for (key, n) in sizes.into_iter().chain([("hosts", hosts)]) {
                    if !(1..=64).contains(&n) {
                        return Err(KeyError::new(key, format!("{n}: 1 to 64")));
                    }
                }
                if !(1..=CORES_MAX).contains(&cores) || cores % aggregations != 0 {
                    let message = format!(
                        "{cores}: a multiple of the {aggregations} aggregation switches of a pod, at most {CORES_MAX}"
                    );
                    return Err(KeyError::new("cores", message));
                }
                Shape::Clos(Clos { pods, edges, aggregations, cores, hosts })
            }
        };
        self.named(shape, (0..shape.hosts()).map(|i| i.to_string()).collect())
    }

    fn named(&self, shape: Shape, names: Vec<String>) -> Result<(Shape, Vec<String>), KeyError> {
        if names.is_empty() || shape.hosts() > HOSTS_MAX {
            let message = format!("{} hosts: 1 to {HOSTS_MAX}", names.len());
            return Err(KeyError::new("", message));
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(KeyError::new("", format!("two hosts are called `{}`", twice[0])));
        }
        Ok((shape, names))
    }
}
