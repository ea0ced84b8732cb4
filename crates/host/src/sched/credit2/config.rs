//! Whose rules, and the parameters of credit2.

use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::cpu_set::CpuSet;
use crate::sched::parameters::scheduler_parameters;
use crate::sched::ratelimit::check_ratelimit;

/// Which Xen's rules to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
pub enum Credit2Version {
    /// Xen 4.8.1.
    #[serde(rename = "4.8.1")]
    Xen481,
    /// Xen 4.10 to 4.20.
    #[serde(rename = "4.10")]
    Xen410,
    /// Xen 4.21.
    #[serde(rename = "4.21")]
    Xen421,
    /// Xen 4.21 with the patch of patches/xen: a wake-up that the rate limit holds up waits until the limit is over, not until the
    /// slice is.
    #[serde(rename = "mended")]
    Mended,
}

/// Which pCPUs share a run queue (`credit2_runqueue`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunqueueScope {
    /// Each core by itself; with SMT off each pCPU. The default of 4.8.
    Core,
    /// Each socket. The default since commit 3a782c7603 (4.9).
    Socket,
    /// All pCPUs.
    All,
}

scheduler_parameters! {
    /// Parameters of the credit2 scheduler.
    pub struct Credit2Config(Credit2Version);
    /// Parameters of `credit2`.
    pub struct Credit2Keys;
    {
        /// Rate limit, `sched_ratelimit_us`: 0us (off) or 100us to 500ms; default 1000us.
        ratelimit: Duration,
        /// Which pCPUs share a run queue, `credit2_runqueue`; default core for 4.8.1, socket since.
        runqueue: RunqueueScope,
        /// How many pCPUs a run queue has at most, `sched_credit2_max_cpus_runqueue`; default 16, which is that of Xen since 4.15
        /// (8e2aa76dc1), and 1024, no limit, for 4.8.1.
        #[schemars(range(min = 1, max = 1024))]
        runqueue_pcpus: u16,
        /// Credit that a vCPU has to be ahead to be pulled to another pCPU, `sched_credit2_migrate_resist`: 0us to 100ms; default
        /// 500us.
        migrate_resist: Duration,
        /// Period of caps, `credit2_cap_period_ms`: 1ms to 1s; default 10ms.
        cap_period: Duration,
    }
}

impl Credit2Config {
    /// The defaults of `version`.
    pub fn new(version: Credit2Version) -> Self {
        let old = version == Credit2Version::Xen481;
        Credit2Config {
            version,
            ratelimit: Duration::from_us(1000),
            runqueue: if old { RunqueueScope::Core } else { RunqueueScope::Socket },
            runqueue_pcpus: if old { CpuSet::MAX_PCPUS } else { 16 },
            migrate_resist: Duration::from_us(500),
            cap_period: Duration::from_ms(10),
        }
    }

    /// Refuses what Xen refuses; the text says what would be right.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_ratelimit(self.ratelimit)?;
        if !(1..=CpuSet::MAX_PCPUS).contains(&self.runqueue_pcpus) {
            return Err(format!("runqueue_pcpus {}: 1 to 1024", self.runqueue_pcpus));
        }
        if self.migrate_resist > Duration::from_ms(100) {
            return Err(format!("migrate_resist {}: 0us to 100ms", self.migrate_resist));
        }
        if !(Duration::from_ms(1)..=Duration::from_s(1)).contains(&self.cap_period) {
            return Err(format!("cap_period {}: 1ms to 1s", self.cap_period));
        }
        Ok(())
    }
}
