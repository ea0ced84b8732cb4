//! Quotas of control groups, and how often they ran out: `cpu.stat`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lowtail_host::cgroup::CgroupStats;

use super::Throttled;
use crate::cgroup::{Hierarchy, parse_stat};
use crate::discover::Vm;

/// What groups had when they were looked at last.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    last: HashMap<PathBuf, CgroupStats>,
}

impl Quotas {
    /// Periods of the machine's groups since the last time. A group that is new has had none.
    pub(crate) fn since(&mut self, vm: &Vm, hierarchy: &Hierarchy) -> Vec<Throttled> {
        let mut throttled = Vec::new();
        for group in &vm.groups {
            let Some(now) = stat(hierarchy, &group.path) else { continue };
            let then = self.last.insert(group.path.clone(), now).unwrap_or(now);
            // Without a quota there are no periods.
            if now.periods > then.periods {
                throttled.push(Throttled {
                    group: group.label.clone(),
                    periods: now.periods - then.periods,
                    throttled_periods: now.throttled_periods.saturating_sub(then.throttled_periods),
                    throttled_ns: now.throttled.as_ns().saturating_sub(then.throttled.as_ns()),
                });
            }
        }
        throttled
    }

    /// Drops what is known of groups that none of these machines is in.
    pub(crate) fn keep(&mut self, vms: &[Vm]) {
        let groups = vms.iter().flat_map(|vm| &vm.groups);
        let paths: std::collections::HashSet<&Path> = groups.map(|g| g.path.as_path()).collect();
        self.last.retain(|path, _| paths.contains(path.as_path()));
    }
}

/// `None` if the group is gone, or there is nothing in it about quotas.
fn stat(hierarchy: &Hierarchy, group: &Path) -> Option<CgroupStats> {
    let path = hierarchy.root.join(group.strip_prefix("/").unwrap_or(group)).join("cpu.stat");
    std::fs::read_to_string(path).ok().map(|text| parse_stat(&text))
}
