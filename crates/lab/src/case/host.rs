//! The hosts of a case, and the network between them.

use std::path::Path;

use lowtail_host::{Config, ConfigError, CpuSet, Dom, Topology, VmConfig};

use super::contradiction::contradiction;
use super::spec::{HostCase, VmKind, VmRef, VmThreads};
use super::topology::topology;
use crate::costs::CostTable;
use crate::cpu_set::cpu_set;
use crate::error::KeyError;
use crate::file::{HostFile, PointFile, VmFile};
use crate::kvm::vm::KvmHost;
use crate::limits::{BACKLOG_PACKETS_MAX, GROUP_QUEUES_MAX, NETWORK_VCPUS_MAX};
use crate::network::build::{EndSpec, NetworkCase};
use crate::traffic::IoTables;
use crate::workload::WorkloadFile;

/// Most vCPUs of a host.
const VCPUS_MAX: u32 = 4096;

/// What a case is about, in the making.
#[derive(Default)]
pub(super) struct CaseParts {
    pub(super) hosts: Vec<HostCase>,
    pub(super) kinds: Vec<VmKind>,
    pub(super) network: Option<NetworkCase>,
    /// Traffic by number: its name, how many values it measures, and in how many sizes.
    pub(super) traffic: Vec<(String, u64, usize)>,
}

/// The hosts, and the network between them.
pub(super) fn make(
    file: &PointFile,
    host: Option<(&HostFile, &CostTable)>,
    chosen: &[String],
    base: Option<&Path>,
) -> Result<CaseParts, KeyError> {
    let mut made = CaseParts::default();
    let with_topology = |(host, costs): (&HostFile, _)| {
        check_pcpus(host.pcpus)?;
        let (pcpus, topology) = topology(host, base)?;
        check_pcpus(pcpus)?;
        Ok((HostFile { pcpus, ..host.clone() }, topology, costs))
    };
    let host = host.map(with_topology).transpose()?;
    let Some(network) = &file.network else {
        for (table, some) in
            [("end", file.end.keys().next()), ("traffic", file.traffic.keys().next())]
        {
            if let Some(name) = some {
                return Err(KeyError::new(name, "belongs to a network: `[network]` is missing")
                    .under(&[table]));
            }
        }
        if let Some((host, topology, costs)) = &host {
            made.host(file, (host, topology), chosen, costs, None)?;
        }
        return Ok(made);
    };
    for (table, some) in [("nic", file.nic.keys().next()), ("flow", file.flow.keys().next())] {
        if let Some(name) = some {
            let message = "in a network NICs and flows are those of `[network]` and `[traffic]`";
            return Err(KeyError::new(name, message).under(&[table]));
        }
    }
    let in_topology = |bad: KeyError| bad.under(&["network", "topology"]);
    let (_, machines) = network.topology.build().map_err(in_topology)?;
    let mut ends = Vec::new();
    if let Some((host, topology, costs)) = &host {
        for name in chosen {
            let vm = &file.vm[name];
            let on = |message| KeyError::new("on", message).under(&["vm", name]);
            let Some(names) = &vm.on else {
                return Err(on(format!("on which host? There are {}", machines.join(", "))));
            };
            for machine in names.list() {
                crate::network::build::machine(machine, &machines).map_err(on)?;
            }
        }
        for (number, name) in machines.iter().enumerate() {
            let is_here =
                |vm: &&String| file.vm[*vm].on.as_ref().is_some_and(|on| on.list().contains(name));
            let here: Vec<String> = chosen.iter().filter(is_here).cloned().collect();
            if here.is_empty() {
                continue;
            }
            let at = made.hosts.len();
            made.host(file, (host, topology), &here, costs, Some(name))?;
            let vcpus = |host: &HostCase| -> usize {
                host.config.vms.iter().map(|vm| usize::from(vm.vcpus)).sum()
            };
            let all: usize = made.hosts.iter().map(vcpus).sum();
            if let (true, Some(vm)) = (all > NETWORK_VCPUS_MAX, here.last()) {
                let message = format!(
                    "{all} vCPUs and threads on hosts up to `{name}`: at most {NETWORK_VCPUS_MAX}"
                );
                return Err(KeyError::new("on", message).under(&["vm", vm]));
            }
            for kind in &made.kinds {
                for vm in kind.vms.iter().filter(|vm| vm.host == at) {
                    let config = &made.hosts[at].config.vms[vm.dom.index()];
                    if config.workload.net().is_some() {
                        let (name, machine) = (kind.name.clone(), number as u32);
                        ends.push(EndSpec { name, machine, home: Some((at, vm.dom.0)) });
                    }
                }
            }
        }
    }
    let network = crate::network::build::build(network, &file.end, &file.traffic, ends, base)?;
    for (name, traffic) in network.traffic.iter().zip(&network.config().traffic) {
        let sizes = if traffic.bins.is_empty() { 0 } else { traffic.bins.len() + 1 };
        made.traffic.push((name.clone(), traffic.count, sizes));
    }
    made.network = Some(network);
    Ok(made)
}

impl CaseParts {
    /// Adds a host with the VMs `chosen`; in a network it is called `machine`.
    fn host(
        &mut self,
        file: &PointFile,
        (host, topology): (&HostFile, &Topology),
        chosen: &[String],
        costs: &CostTable,
        machine: Option<&str>,
    ) -> Result<(), KeyError> {
        let scheduler = host.scheduler.build();
        let at = self.hosts.len();
        let (mut vms, mut vcpus) = (Vec::new(), 0);
        let mut own: Vec<VmKind> = Vec::new();
        let (mut kvm, mut threads) = (KvmHost::new(file, host)?, Vec::new());
        for name in chosen {
            let vm = &file.vm[name];
            let in_vm = |bad: KeyError| bad.under(&["vm", name]);
            if machine.is_none() && vm.on.is_some() {
                return Err(in_vm(KeyError::new(
                    "on",
                    "there are no hosts: `[network]` is missing",
                )));
            }
            let others = u32::from(vm.others());
            vcpus += (0..vm.count).map(|i| u32::from(vm.vcpus.of(i)) + others).sum::<u32>();
            if vm.count > 1024 || vcpus > VCPUS_MAX {
                let message = format!(
                    "{vcpus} vCPUs and threads by here: at most {VCPUS_MAX} (and 1024 VMs of a kind)"
                );
                return Err(in_vm(KeyError::new("count", message)));
            }
            let config = vm_config(name, vm, host.pcpus).map_err(in_vm)?;
            let first = vms.len() as u16;
            let table = name;
            for i in 0..vm.count {
                let name = if i == 0 { name.clone() } else { format!("{name}-{}", i + 1) };
                let mut config = VmConfig { name, vcpus: vm.vcpus.of(i), ..config.clone() };
                let vcpus = config.vcpus;
                let helpers = kvm.add(table, vm, &mut config).map_err(in_vm)?;
                threads.push(VmThreads { vcpus, helpers });
                vms.push(config);
            }
            own.push(VmKind {
                name: name.clone(),
                vms: (first..first + vm.count)
                    .map(|dom| VmRef { host: at, dom: Dom(dom) })
                    .collect(),
                measures: vm.measures(),
                counts_late: vm.workloads().any(|(_, workload)| workload.counts_late()),
                streams: false,
            });
        }
        let pcpus = host.pcpus;
        let is_net = |dom: Dom| vms[dom.index()].workload.net().is_some();
        let tables = IoTables {
            nics: &file.nic,
            flows: &file.flow,
            vms: file.vm.keys().map(String::as_str).collect(),
            events: host.events,
        };
        let (mut io, links) = crate::traffic::build(&tables, costs.path(), &mut own, &is_net)?;
        if let Some(network) = &file.network {
            io.nics.push(NetworkCase::host_nic(network));
        }
        let tickle = host.tickle;
        check_backlog(file, chosen, &vms)?;
        let (cgroups, places) = kvm.finish();
        let queues = cgroups.len() * usize::from(host.pcpus);
        if queues > GROUP_QUEUES_MAX {
            let message = format!(
                "{} control groups on {} pCPUs have {queues} queues: at most {GROUP_QUEUES_MAX}",
                cgroups.len(),
                host.pcpus
            );
            return Err(KeyError::new("pcpus", message).under(&["host"]));
        }
        let mut config = Config {
            topology: Some(topology.clone()),
            sibling_speed_percent: host.sibling_speed_percent,
            io,
            tickle,
            cgroups,
            ..Config::new(pcpus, scheduler, costs.costs(), vms)
        };
        if file.network.is_none() {
            links.add_processes(&mut config);
        }
        config
            .host_state()
            .map_err(|error| contradiction(&error, &host.scheduler, (&config.cgroups, &places)))?;
        let name = machine.unwrap_or_default().to_string();
        self.hosts.push(HostCase { name, config, links, threads });
        for kind in own {
            match self.kinds.iter_mut().find(|known| known.name == kind.name) {
                Some(known) => known.vms.extend(kind.vms),
                None => self.kinds.push(kind),
            }
        }
        Ok(())
    }
}

/// Refuses more pCPUs than a host can have, and none.
fn check_pcpus(pcpus: u16) -> Result<(), KeyError> {
    if (1..=CpuSet::MAX_PCPUS).contains(&pcpus) {
        return Ok(());
    }
    Err(KeyError::new("pcpus", ConfigError::Pcpus(pcpus).to_string()).under(&["host"]))
}

/// Refuses a driver domain that would keep more packets for the interfaces of `vms` than there is room for.
fn check_backlog(file: &PointFile, chosen: &[String], vms: &[VmConfig]) -> Result<(), KeyError> {
    let queues: usize = vms.iter().map(|vm| usize::from(vm.queues())).sum();
    for name in chosen {
        let WorkloadFile::DriverDomain(driver) = &file.vm[name].workload else { continue };
        let packets = queues.saturating_mul(usize::from(driver.queue_packets));
        if packets > BACKLOG_PACKETS_MAX {
            let message = format!(
                "{} packets for each of {queues} queues: at most {BACKLOG_PACKETS_MAX} in all",
                driver.queue_packets
            );
            let place = ["vm", name, "workload", "driver-domain"];
            return Err(KeyError::new("queue_packets", message).under(&place));
        }
    }
    Ok(())
}

fn vm_config(name: &str, vm: &VmFile, pcpus: u16) -> Result<VmConfig, KeyError> {
    let workload = vm.workload.build().map_err(|bad| bad.under(&["workload"]))?;
    let mut config = VmConfig::new(name, workload);
    (config.vcpus, config.weight, config.cap_percent) = (vm.vcpus.of(0), vm.weight, vm.cap);
    if let Some(pin) = &vm.pin {
        config.hard = cpu_set("pin", pin, pcpus)?;
    }
    config.pauses.clone_from(&vm.pauses);
    if let Some(soft) = &vm.soft {
        config.soft = cpu_set("soft", soft, pcpus)?;
    }
    Ok(config)
}
