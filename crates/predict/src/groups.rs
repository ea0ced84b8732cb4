//! Control groups of the recorded host, and those of VMs that are added.

use std::collections::HashMap;

use lowtail_engine::Duration;
use lowtail_host::Cgroup;
use lowtail_host::cgroup::{CgroupConfig, Limit};
use lowtail_trace::recording::GroupFacts;

use crate::history::ThreadNumber;
use crate::recording::Recording;

/// The control groups of a model: those in which there are threads, and those above.
pub(crate) struct Groups {
    pub(crate) configs: Vec<CgroupConfig>,
    /// By number in the recording and copy.
    known: HashMap<(u32, u32), Cgroup>,
    /// The VM of which all threads in a group and below are; `Err`: of several, or of none.
    vms: Vec<Option<Result<usize, ()>>>,
}

impl Groups {
    pub(crate) fn new(recording: &Recording) -> Self {
        let facts = &recording.host.facts;
        let mut vms = vec![None; facts.groups.len()];
        for (info, vm) in recording.infos.iter().zip(&recording.vms) {
            let vm = vm.ok_or(());
            let mut at = facts.threads.get(&info.tid).and_then(|thread| thread.group);
            while let Some(group) = at {
                let Some(of) = vms.get_mut(group as usize) else { break };
                *of = match *of {
                    None => Some(vm),
                    Some(other) if other == vm => Some(vm),
                    Some(_) => Some(Err(())),
                };
                at = parent(&facts.groups, group);
            }
        }
        Groups { configs: Vec::new(), known: HashMap::new(), vms }
    }

    /// The group of a thread: for a copy of a VM one of its own, if the VM has one.
    pub(crate) fn of(
        &mut self,
        recording: &Recording,
        thread: ThreadNumber,
        copy: u32,
    ) -> Option<Cgroup> {
        let facts = &recording.host.facts;
        let group = facts.threads.get(&recording.infos[thread].tid)?.group?;
        self.place(&facts.groups, group, copy)
    }

    /// The group of a VM, if it has one of its own: the topmost in which it is alone. One that is made for several, such as
    /// `machine.slice`, is nobody's own.
    pub(crate) fn of_vm(&mut self, recording: &Recording, vm: usize, copy: u32) -> Option<Cgroup> {
        let groups = &recording.host.facts.groups;
        let is_own = |&(number, group): &(usize, &GroupFacts)| {
            self.vms[number] == Some(Ok(vm))
                && group.parent.is_some()
                && !is_for_several(&group.path)
        };
        let (number, _) = groups.iter().enumerate().find(is_own)?;
        self.place(groups, number as u32, copy)
    }

    fn place(&mut self, groups: &[GroupFacts], group: u32, copy: u32) -> Option<Cgroup> {
        let facts = groups.get(group as usize)?;
        let above = parent(groups, group)?;
        let copy = if matches!(self.vms[group as usize], Some(Ok(_))) { copy } else { 0 };
        if let Some(&known) = self.known.get(&(group, copy)) {
            return Some(known);
        }
        let parent = self.place(groups, above, copy);
        let number = Cgroup(u16::try_from(self.configs.len()).ok()?);
        self.known.insert((group, copy), number);
        let name = if copy == 0 { facts.path.clone() } else { format!("{}+{copy}", facts.path) };
        self.configs.push(CgroupConfig {
            name,
            parent,
            shares: shares(facts),
            limit: limit(facts),
        });
        Some(number)
    }
}

/// Whether a group is made for several VMs: systemd's slices, and libvirt's directories (`virCgroupNewPartition`).
fn is_for_several(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.ends_with(".slice")
        || ["machine", "libvirt", "qemu", "kubepods"].contains(&name) && !path.contains(".scope")
}

/// The group above, which comes before it.
fn parent(groups: &[GroupFacts], group: u32) -> Option<u32> {
    groups.get(group as usize)?.parent.filter(|&parent| parent < group)
}

/// `cpu.weight` 100 are 1024 shares; a group with `cpu.idle` has the weight 3 (`WEIGHT_IDLEPRIO`, `kernel/sched/sched.h`).
fn shares(group: &GroupFacts) -> u64 {
    let weight = group.weight.map(|weight| u64::from(weight) * 1024 / 100);
    let shares = weight.or_else(|| group.shares.map(u64::from)).unwrap_or(1024);
    if group.idle { 3 } else { shares.clamp(2, 262_144) }
}

fn limit(group: &GroupFacts) -> Option<Limit> {
    let (ms, s) = (1_000_000, 1_000_000_000);
    let quota = group.quota_ns?.max(ms);
    Some(Limit {
        quota: Duration::from_ns(quota),
        period: Duration::from_ns(group.period_ns.clamp(ms, s)),
        burst: Duration::from_ns(group.burst_ns.min(quota)),
    })
}
