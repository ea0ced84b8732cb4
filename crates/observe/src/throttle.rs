//! Quotas of control groups, and how often they ran out: `cpu.stat`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::Throttled;
use lowtail_discover::Vm;
use lowtail_kernel::cgroup::{CpuStat, Hierarchy, parse_stat};

/// What groups had when they were looked at last, and what had come since the time before.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    groups: HashMap<PathBuf, Group>,
}

#[derive(Debug, Default)]
struct Group {
    now: CpuStat,
    periods: u64,
    throttled_periods: u64,
    throttled_ns: u64,
}

impl Quotas {
    /// Looks at the groups of these VMs. One that is new has had no periods.
    pub(crate) fn look<'a>(&mut self, vms: impl Iterator<Item = &'a Vm>, hierarchy: &Hierarchy) {
        let mut old = std::mem::take(&mut self.groups);
        for group in vms.flat_map(|vm| &vm.groups) {
            if self.groups.contains_key(&group.path) {
                continue;
            }
            let Some(now) = stat(hierarchy, &group.path) else { continue };
            let then = old.remove(&group.path).map_or(now, |group| group.now);
            let new = Group {
                now,
                periods: now.periods.saturating_sub(then.periods),
                throttled_periods: now.throttled_periods.saturating_sub(then.throttled_periods),
                throttled_ns: now.throttled_ns.saturating_sub(then.throttled_ns),
            };
            self.groups.insert(group.path.clone(), new);
        }
    }

    /// The VM's groups that had periods, which those without a quota have not.
    pub(crate) fn of(&self, vm: &Vm) -> Vec<Throttled> {
        let groups = vm.groups.iter();
        let looked_at = groups.filter_map(|group| Some((group, self.groups.get(&group.path)?)));
        let with_periods = looked_at.filter(|(_, stat)| stat.periods > 0);
        let throttled = with_periods.map(|(group, stat)| Throttled {
            group: group.label.clone(),
            periods: stat.periods,
            throttled_periods: stat.throttled_periods,
            throttled_ns: stat.throttled_ns,
        });
        throttled.collect()
    }
}

/// `None` if the group is gone, or there is nothing in it about quotas.
fn stat(hierarchy: &Hierarchy, group: &Path) -> Option<CpuStat> {
    let path = hierarchy.root.join(group.strip_prefix("/").unwrap_or(group)).join("cpu.stat");
    std::fs::read_to_string(path).ok().map(|text| parse_stat(&text))
}
