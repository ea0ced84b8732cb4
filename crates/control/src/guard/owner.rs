//! Whose a setting is.

use lowtail_discover::Vm;

use crate::libvirt::Running;
use crate::manage::Knob;

/// The VM that a knob is of; `None` if it is nobody's, as an uplink's.
pub fn owner<'a>(vms: &'a [Vm], knob: &Knob) -> Option<&'a Vm> {
    let has_thread = |vm: &Vm, tid: u32| vm.threads.iter().any(|thread| thread.tid == tid);
    vms.iter().find(|vm| match knob {
        Knob::Group(group) => vm.cgroup.as_deref().is_some_and(|own| group.path().starts_with(own)),
        Knob::Affinity(affinity) => has_thread(vm, affinity.thread.tid()),
        Knob::Sched(sched) => has_thread(vm, sched.thread.tid()),
        Knob::Libvirt(of) => {
            let (domain, name) = (of.domain.clone(), vm.name.clone());
            Running { domain, name, labels: Vec::new(), odd: None }.is(vm)
        }
        Knob::Network(_) => false,
    })
}
