//! Slices and nice values, of threads.

use std::io;

use lowtail_engine::Duration;

use super::nice::nice;
use super::{HostCapabilities, Target, VcpusBy, Wanted};
use crate::manage::{Knob, Sched, Thread};
use crate::policy::{Rule, Weight};
use lowtail_discover::{Role, Vm};

impl Wanted {
    /// What a VM's vCPUs shall have as threads.
    pub(super) fn threads(&mut self, vm: &Vm, rule: &Rule, capabilities: &HostCapabilities) {
        let threads = || vm.threads.iter().filter(|thread| matches!(thread.role, Role::Vcpu(_)));
        // Threads in a group with others have a weight of their own in it, which is a nice value.
        if let Weight::PerVcpu(weight) = rule.weight
            && rule.weight != Weight::default()
            && (vm.cgroup.is_none() || capabilities.hierarchy.is_none())
            && self.vcpus == VcpusBy::Fair
        {
            for thread in threads() {
                let why = format!(
                    "weight {weight} of {}, which is in a control group with others",
                    vm.name
                );
                self.wish(vm, Target::Thread(thread.tid), format!("nice={}", nice(weight)), why);
            }
        }
        let Some(slice) = rule.slice.filter(|_| threads().next().is_some()) else { return };
        if self.vcpus == VcpusBy::SmallFirst {
            self.note(Some(vm), "its slice is not used: small_first has one for all");
            return;
        }
        if let Some(why) = no_slices(capabilities) {
            self.note(Some(vm), why);
            return;
        }
        for thread in threads() {
            let why = format!("slice {slice} of {}", vm.name);
            self.wish(vm, Target::Thread(thread.tid), format!("slice_ns={}", slice.as_ns()), why);
        }
    }

    /// The slice of a VM's back-end workers.
    pub(super) fn workers(
        &mut self,
        vm: &Vm,
        slice: Option<Duration>,
        capabilities: &HostCapabilities,
    ) {
        let is_worker = |role| matches!(role, Role::Vhost(_) | Role::IoThread(_));
        let workers: Vec<u32> = vm
            .threads
            .iter()
            .filter(|thread| is_worker(thread.role))
            .map(|thread| thread.tid)
            .collect();
        let Some(slice) = slice.filter(|_| !workers.is_empty()) else { return };
        if let Some(why) = no_slices(capabilities) {
            self.note(Some(vm), why);
            return;
        }
        for tid in workers {
            let why = format!("slice {slice} of back-end workers, here of {}", vm.name);
            self.wish(vm, Target::Thread(tid), format!("slice_ns={}", slice.as_ns()), why);
        }
    }
}

/// Policy, nice value and slice of a thread; `None` if it has ended.
pub(super) fn sched(tid: u32) -> io::Result<Option<Knob>> {
    Ok(Thread::of(tid)?.map(|thread| Knob::Sched(Sched { thread })))
}

fn no_slices(capabilities: &HostCapabilities) -> Option<String> {
    let (major, minor) = capabilities.kernel;
    let lacks = !capabilities.has_slices();
    lacks.then(|| {
        format!("a slice cannot be set here: it needs Linux 6.12, this is {major}.{minor}")
    })
}
