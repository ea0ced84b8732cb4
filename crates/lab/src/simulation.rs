//! Hosts and network of a case that has been run.

use lowtail_engine::{Hist, Time};
use lowtail_host::Host;
use lowtail_host::stats::VcpuStats;
use lowtail_net::{DatagramFlow, Net};

use crate::case::spec::{Case, VmRef};

/// Hosts and network of a case, as they are when the run has ended.
pub(crate) struct Simulation {
    /// The hosts, in the order of [`Case::hosts`].
    pub(crate) hosts: Vec<Host>,
    /// The network between them, or the links of the only one.
    pub(crate) net: Option<Net>,
}

impl Simulation {
    /// When it ended.
    pub(crate) fn now(&self) -> Time {
        let hosts = self.hosts.iter().map(Host::now);
        hosts.chain(self.net.iter().map(Net::now)).max().unwrap_or(Time::ZERO)
    }

    /// The flows of its host's links that count for `vm`.
    pub(crate) fn flows_of<'r>(
        &'r self,
        case: &'r Case,
        vm: VmRef,
    ) -> impl Iterator<Item = &'r DatagramFlow> + 'r {
        let links = &case.hosts[vm.host].links;
        self.net.iter().flat_map(move |net| links.flows_of(vm.dom, net))
    }

    /// What `vm`, or the hosts that send it requests, have measured.
    pub(crate) fn latency(&self, case: &Case, vm: VmRef) -> Option<Hist> {
        let mut latency = self.hosts[vm.host].outcome(vm.dom).latency;
        for flow in self.flows_of(case, vm).filter(|flow| flow.done().is_some()) {
            latency.get_or_insert_with(Hist::new).merge(flow.latency());
        }
        latency
    }

    /// The statistics of all vCPUs of `vms`.
    pub(crate) fn vcpus<'r>(&'r self, vms: &'r [VmRef]) -> impl Iterator<Item = &'r VcpuStats> {
        vms.iter().flat_map(|vm| {
            let host = &self.hosts[vm.host];
            host.state().doms[vm.dom.index()].vcpus.iter().map(|&v| host.vcpu_stats(v))
        })
    }
}
