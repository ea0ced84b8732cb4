//! A case, ready to be run: hosts, the network between them, and the rows that it yields.

use lowtail_engine::Duration;
use lowtail_host::{Config, Dom};

use crate::costs::CostTable;
use crate::network::build::NetworkCase;
use crate::network::links::HostLinks;
use crate::row_file::DelayKind;

/// A VM of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmRef {
    /// Number of its host among [`Case::hosts`].
    pub host: usize,
    /// Its number there.
    pub dom: Dom,
}

/// A simulated host.
#[derive(Debug, Clone)]
pub struct HostCase {
    /// Its name in the network; empty if there is none.
    pub name: String,
    /// What it is made of.
    pub config: Config,
    /// The links of its NICs, and the flows on them, where there is no network.
    pub links: HostLinks,
    /// The threads of each VM, by its number.
    pub threads: Vec<VmThreads>,
}

/// What the vCPUs of a [`VmConfig`](lowtail_host::VmConfig) are: a KVM host schedules all threads of a VM alike.
#[derive(Debug, Clone)]
pub struct VmThreads {
    /// The first so many are vCPUs.
    pub vcpus: u16,
    /// Names of the threads besides: `emulator`, `iothread1`, `vhost0`.
    pub helpers: Vec<String>,
}

/// VMs of a kind: one table of the scenario file.
#[derive(Debug, Clone)]
pub struct VmKind {
    /// Their name in the file.
    pub name: String,
    /// Where they are; none if the case has none of them.
    pub vms: Vec<VmRef>,
    /// How many values each of them measures, if it does.
    pub measures: Option<u64>,
    /// Whether it counts late wake-ups.
    pub counts_late: bool,
    /// Whether flows end or begin in them.
    pub streams: bool,
}

/// A row that a case yields.
#[derive(Debug, Clone)]
pub struct RowSpec {
    /// Its name.
    pub name: String,
    /// Whose figures, together: indices into [`Case::kinds`].
    pub kinds: Vec<usize>,
    /// Or of which traffic, by number, and of which of its sizes.
    pub traffic: Option<(usize, Option<usize>)>,
    /// Which distribution.
    pub of: DelayKind,
}

/// One point to run.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Variables and their values.
    pub variables: Vec<(String, String)>,
    /// The hosts; one if there is no network.
    pub hosts: Vec<HostCase>,
    /// The network between them.
    pub network: Option<NetworkCase>,
    /// What things cost on hosts, with sources; none if there are no hosts.
    pub costs: Option<CostTable>,
    /// Limit of simulated time.
    pub duration: Duration,
    /// The VMs by kind.
    pub kinds: Vec<VmKind>,
    /// The rows that it yields.
    pub rows: Vec<RowSpec>,
}

impl Case {
    /// How many things it is made of.
    pub(super) fn parts(&self) -> usize {
        let host = |host: &HostCase| {
            let vcpus = host.config.vms.iter().map(|vm| 1 + usize::from(vm.vcpus));
            host.config.cgroups.len() + vcpus.sum::<usize>()
        };
        let network = self.network.as_ref().map_or(0, NetworkCase::parts);
        network + self.hosts.iter().map(host).sum::<usize>()
    }

    /// One line about the scheduler of its hosts, and its network.
    pub fn describe(&self) -> String {
        let host = self.hosts.first();
        let scheduler = host.map(|host| crate::scheduler::describe(&host.config.scheduler));
        let network = self.network.as_ref().map(NetworkCase::describe);
        let parts: Vec<String> = scheduler.into_iter().chain(network).collect();
        parts.join("; ")
    }
}
