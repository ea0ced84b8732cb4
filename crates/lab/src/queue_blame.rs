//! Blame for the queues of a case: asked for before its run, and gathered after it.

use lowtail_host::{Dom, Host};
use lowtail_net::port::PortId;
use lowtail_net::{BlameConfig, Net};

use crate::case::spec::Case;
use crate::network::blame::{QueueBlame, classes};
use crate::simulation::Simulation;

/// The VMs of a case that have an interface, by class.
struct VmClasses {
    /// By host and VM; those without an interface have any.
    of: Vec<Vec<u8>>,
    /// What the classes are called: VMs of one name on several hosts are one.
    names: Vec<String>,
}

impl VmClasses {
    fn new(case: &Case, hosts: &[Host]) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut queues = 0;
        let mut places: Vec<Vec<usize>> = Vec::new();
        for (host, own) in hosts.iter().zip(&case.hosts) {
            let place = |(dom, vm): (usize, &lowtail_host::VmConfig)| {
                if !host.io().has_vif(Dom(dom as u16)) {
                    return 0;
                }
                // A worker for each direction, at most.
                queues += 2 * host.io().vif(Dom(dom as u16)).len();
                names.iter().position(|name| *name == vm.name).unwrap_or_else(|| {
                    names.push(vm.name.clone());
                    names.len() - 1
                })
            };
            places.push(own.config.vms.iter().enumerate().map(place).collect());
        }
        let (class, names) = classes(&names, queues);
        let of = |place: &usize| class.get(*place).copied().unwrap_or(0);
        VmClasses { of: places.iter().map(|own| own.iter().map(of).collect()).collect(), names }
    }
}

/// Has the back ends of hosts count; before they are part of a world.
pub(crate) fn ask_hosts(case: &Case, hosts: &mut [Host]) {
    let classes = VmClasses::new(case, hosts);
    if !classes.names.is_empty() {
        hosts.iter_mut().zip(classes.of).for_each(|(host, of)| host.blame(of));
    }
}

/// Has the links of a lone host count.
pub(crate) fn ask_links(case: &Case, hosts: &[Host], net: &mut Net) {
    let classes = VmClasses::new(case, hosts);
    let flows = case.hosts[0].links.flows.iter();
    let datagrams = flows.map(|flow| classes.of[0][flow.counts_for().index()]).collect();
    net.blame(BlameConfig { traffic: Vec::new(), datagrams });
}

/// What all of them have counted.
pub(crate) fn gathered(case: &Case, simulation: &Simulation) -> Vec<QueueBlame> {
    let Simulation { hosts, net } = simulation;
    let mut all = Vec::new();
    let classes = VmClasses::new(case, hosts);
    if let (Some(network), Some(net)) = (&case.network, net) {
        all.push(network.queue_blame(net));
    } else if let ([own], Some(net)) = (&case.hosts[..], net) {
        let links = &own.links;
        all.push(QueueBlame::of(net, classes.names.clone(), |port: PortId| links.name(port)));
    }
    if !classes.names.is_empty() {
        let named = case.hosts.iter().map(|host| host.name.as_str()).zip(hosts);
        all.push(QueueBlame::of_back_ends(named, classes.names, simulation.now()));
    }
    all
}
