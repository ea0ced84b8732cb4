//! Hosts and network of a case that has been run.

use lowtail_engine::Time;
use lowtail_host::Host;
use lowtail_host::stats::VcpuStats;
use lowtail_net::Net;

use crate::case::spec::VmRef;

/// Hosts and network of a case, as they are when the run has ended.
pub(crate) struct Simulation {
    /// The hosts, in the order of [`Case::hosts`].
    pub(crate) hosts: Vec<Host>,
    /// The network between them.
    pub(crate) net: Option<Net>,
}

impl Simulation {
    /// When it ended.
    pub(crate) fn now(&self) -> Time {
        let hosts = self.hosts.iter().map(Host::now);
        hosts.chain(self.net.iter().map(Net::now)).max().unwrap_or(Time::ZERO)
    }

    /// The statistics of all vCPUs of `vms`.
    pub(crate) fn vcpus<'r>(&'r self, vms: &'r [VmRef]) -> impl Iterator<Item = &'r VcpuStats> {
        vms.iter().flat_map(|vm| {
            let host = &self.hosts[vm.host];
            host.facts().doms[vm.dom.index()].vcpus.iter().map(|&v| host.vcpu_stats(v))
        })
    }
}
