//! One domain: its vCPUs, its share of the pCPUs, and what runs in it.

use lowtail_config_text::{DurationText, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::error::ConfigError;
use super::workload::Workload;
use crate::cgroup::Thread;
use crate::costs::Way;
use crate::cpu_set::CpuSet;
use crate::guest::mix::PARTS_MAX;

/// One domain.
#[derive(Debug, Clone)]
pub struct VmConfig {
    /// Its name; the random streams of its workload belong to it.
    pub name: String,
    /// Number of vCPUs, at least 1.
    pub vcpus: u16,
    /// Share of the processors, relative to others. 1 to 65535.
    pub weight: u16,
    /// Upper limit in percent of one pCPU, 0 for none.
    pub cap_percent: u16,
    /// pCPUs on which it may run.
    pub hard: CpuSet,
    /// pCPUs on which it would rather run.
    pub soft: CpuSet,
    /// What its vCPUs are on a Linux host, in order; the last one is for all further vCPUs as
    /// well. Empty: ordinary threads in the root.
    pub threads: Vec<Thread>,
    /// When it is paused, one after the other.
    pub pauses: Vec<Pause>,
    /// How long wake-ups take of its vCPUs, in order, where that is known of each; others have the host's costs.
    pub ways: Vec<Way>,
    /// Its vCPUs are threads of the host's fair class. Only small-first looks at it: Linux runs them before all threads that small-first
    /// schedules (`for_each_class`, kernel/sched/sched.h), and the VM is none of those that share by weight.
    pub fair_class: bool,
    /// What runs in it.
    pub workload: Workload,
}

/// A while in which a domain does not run: `xl pause` and `unpause`, `virsh suspend` and `resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it begins.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub at: Duration,
    /// How long it takes.
    #[serde(deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub length: Duration,
}

impl VmConfig {
    /// A domain with one vCPU, weight 256, no cap, free to run anywhere.
    pub fn new(name: &str, workload: Workload) -> Self {
        let all = CpuSet::first_n(CpuSet::MAX_PCPUS);
        VmConfig {
            name: name.to_string(),
            vcpus: 1,
            weight: 256,
            cap_percent: 0,
            hard: all,
            soft: all,
            threads: Vec::new(),
            pauses: Vec::new(),
            ways: Vec::new(),
            fair_class: false,
            workload,
        }
    }

    /// Queues of its virtual interface.
    pub fn queues(&self) -> u16 {
        self.workload.net().map_or(0, |net| net.queues)
    }

    /// Whether workers of vhost serve its interface.
    pub(crate) fn has_vhost(&self) -> bool {
        self.workload.vhosts().next().is_some()
    }

    /// Refuses what contradicts itself, on a host with these pCPUs.
    pub(super) fn check(&self, pcpus: CpuSet) -> Result<(), ConfigError> {
        let name = || self.name.clone();
        if !(1..=1024).contains(&self.vcpus) {
            return Err(ConfigError::Vcpus(name()));
        }
        if self.weight == 0 {
            return Err(ConfigError::Weight(name()));
        }
        let most = u32::from(self.vcpus) * 100;
        if u32::from(self.cap_percent) > most {
            let (cap, vcpus) = (self.cap_percent, self.vcpus);
            return Err(ConfigError::Cap { name: name(), cap, vcpus, most });
        }
        if self.hard.and(pcpus).is_empty() {
            let (pinned, last) = (Box::new(self.hard), pcpus.len() as u16 - 1);
            return Err(ConfigError::Pinned { name: name(), pinned, last });
        }
        if self.vcpus > 1 && self.workload.is_single() {
            return Err(ConfigError::OneVcpu(name()));
        }
        let mut last = Duration::ZERO;
        for &Pause { at, length } in &self.pauses {
            if length.is_zero() || at < last {
                return Err(ConfigError::Pause { name: name(), at, last });
            }
            last = at + length;
        }
        if let Workload::Vhost(_) = self.workload {
            return Err(ConfigError::Mix(name()));
        }
        if let Workload::Mix(parts) = &self.workload {
            let vcpus: u32 = parts.iter().map(|(vcpus, _)| u32::from(*vcpus)).sum();
            let served = self.workload.net().is_some() && self.has_vhost();
            let mut parts_in_order = parts.iter().enumerate();
            let fit = parts_in_order.all(|(i, (vcpus, part))| part.can_mix(i, *vcpus, served));
            if vcpus != u32::from(self.vcpus) || parts.len() > PARTS_MAX || !fit {
                return Err(ConfigError::Mix(name()));
            }
        }
        Ok(())
    }
}
