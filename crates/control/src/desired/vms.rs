//! What the scheduler small-first is told of VMs, where the kernel has sched_ext.

use std::path::{Path, PathBuf};

use lowtail_host::cgroup::Limit;

use super::threads::sched;
use super::{HostCapabilities, Settings, managed};
use crate::manage::{Setting, Unknown};
use crate::policy::{Cap, Policy, Rule, Weight};
use crate::vcpu;
use lowtail_discover::{Found, Role, Vm};

/// `cpu.weight` and the rule's weight of who has the usual one: `cgroup-v2.rst`, and `LT_WEIGHT_USUAL` of policy/vcpu.h.
const USUAL: (u64, u64) = (100, 256);

/// A VM for the scheduler.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its process and when that began, in clock ticks: [`Vm::pid`], [`Vm::started_ticks`].
    pub id: (u32, u64),
    /// What the scheduler is told.
    pub machine: vcpu::Vm,
}

/// The VMs of `found` that `policy` manages, as the scheduler is told of them. All threads of a VM are in it:
/// its I/O threads and vhost workers are as small as what its bucket has for them.
pub fn members(policy: &Policy, found: &Found, capabilities: &HostCapabilities) -> Vec<Member> {
    let root = found.hierarchy.as_ref().map(|hierarchy| hierarchy.root.as_path());
    let managed = managed(policy, &found.vms, capabilities).into_iter();
    let managed = managed.filter(|(vm, _)| !capabilities.is_aside(vm));
    managed.map(|(vm, rule)| member(vm, &rule, root, capabilities.cpus.len())).collect()
}

impl Settings {
    /// The class of each thread of these VMs: what they had is on disk before they are moved.
    pub(super) fn classes(
        &mut self,
        policy: &Policy,
        found: &Found,
        capabilities: &HostCapabilities,
    ) {
        let managed = managed(policy, &found.vms, capabilities).into_iter();
        for (vm, _) in managed.filter(|(vm, _)| !capabilities.is_aside(vm)) {
            for thread in &vm.threads {
                let why = || format!("small-first schedules {}", vm.name);
                match sched(thread.tid) {
                    Ok(Some(knob)) => {
                        self.settings.push(Setting { knob, to: "policy=ext".into(), why: why() });
                    }
                    Ok(None) => {}
                    Err(error) => {
                        self.note(format!("{}: {error}", why()));
                        self.unknown.push(Unknown::Thread(thread.tid));
                    }
                }
            }
        }
    }
}

fn member(vm: &Vm, rule: &Rule, root: Option<&Path>, cpus: usize) -> Member {
    let vcpus = vm.vcpus(cpus).max(1);
    let directory = |group: &Path| -> Option<PathBuf> {
        Some(root?.join(group.strip_prefix("/").unwrap_or(group)))
    };
    let weight = match rule.weight {
        Weight::Keep => None,
        Weight::PerVcpu(weight) => {
            let weight = weight.saturating_mul(vcpus).saturating_mul(USUAL.1) / USUAL.0;
            Some(weight.clamp(1, u16::MAX.into()) as u16)
        }
    };
    let threads = vm.threads.iter().map(|thread| {
        let limit = match thread.role {
            Role::Vcpu(_) => &rule.vcpu_cap,
            Role::IoThread(_) => &rule.iothread_cap,
            Role::Emulator | Role::Vhost(_) | Role::Worker => &None,
        };
        // One that holds this thread only: a vCPU's, an I/O thread's.
        let alone = matches!(thread.role, Role::Vcpu(_) | Role::IoThread(_));
        let group = thread.cgroup.as_deref().filter(|_| alone);
        vcpu::Thread {
            tid: thread.tid,
            cap: limit.as_ref().and_then(cap),
            group: group.and_then(directory),
        }
    });
    let machine = vcpu::Vm {
        vcpus: u32::try_from(vcpus).unwrap_or(u32::MAX),
        weight,
        cap: rule.cap.as_ref().and_then(cap),
        group: vm.cgroup.as_deref().and_then(directory),
        threads: threads.collect(),
    };
    Member { id: (vm.pid, vm.started_ticks), machine }
}

/// A limit as a rate; `None` if there is none.
fn cap(cap: &Cap) -> Option<vcpu::Cap> {
    let Cap::Limited(Limit { quota, period, burst }) = *cap else { return None };
    let basis_points = quota.mul_div(10_000, 1).as_ps() / period.as_ps().max(1);
    let saved = (quota + burst).as_ns();
    Some(vcpu::Cap {
        basis_points: u32::try_from(basis_points).unwrap_or(u32::MAX),
        burst_ns: u32::try_from(saved).unwrap_or(u32::MAX),
    })
}
