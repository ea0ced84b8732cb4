//! Whose a setting is.

use std::collections::HashMap;
use std::path::Path;

use lowtail_discover::Vm;

use crate::libvirt::Running;
use crate::manage::Knob;
use crate::xen;

/// Whose threads and control groups are whose.
#[derive(Debug)]
pub struct Owners<'a> {
    vms: &'a [Vm],
    threads: HashMap<u32, &'a Vm>,
    groups: HashMap<&'a Path, &'a Vm>,
}

impl<'a> Owners<'a> {
    /// Of these VMs.
    pub fn new(vms: &'a [Vm]) -> Self {
        let threads = |vm: &'a Vm| vm.threads.iter().map(move |thread| (thread.tid, vm));
        let groups = vms.iter().filter_map(|vm| Some((vm.cgroup.as_deref()?, vm)));
        Owners { vms, threads: vms.iter().flat_map(threads).collect(), groups: groups.collect() }
    }

    /// The VM that a knob is of; `None` if it is nobody's, as an uplink's.
    pub fn of(&self, knob: &Knob) -> Option<&'a Vm> {
        match knob {
            Knob::Group(group) => {
                group.path().ancestors().find_map(|path| self.groups.get(path).copied())
            }
            Knob::Affinity(affinity) => self.threads.get(&affinity.thread.tid()).copied(),
            Knob::Sched(sched) => self.threads.get(&sched.thread.tid()).copied(),
            Knob::Libvirt(of) => self.vms.iter().find(|vm| {
                let (domain, name) = (of.domain.clone(), vm.name.clone());
                Running { domain, name, labels: Vec::new(), odd: None }.is(vm)
            }),
            Knob::Xen(of) => {
                let domain = of.domain()?;
                self.vms.iter().find(|vm| xen::is(vm, domain))
            }
            Knob::Network(_) => None,
        }
    }
}
