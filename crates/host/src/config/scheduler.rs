//! Schedulers with their parameters.

use super::error::ConfigError;
use crate::sched::Scheduler;
use crate::sched::credit::{Credit, CreditConfig};
use crate::sched::credit2::{Credit2, Credit2Config, Credit2Version};
use crate::sched::fair::{Fair, FairConfig};
use crate::sched::null::Null;
use crate::sched::small_first::{SmallFirst, SmallFirstConfig};

/// A scheduler with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulerConfig {
    /// Xen's credit scheduler.
    Credit(CreditConfig),
    /// Xen's credit2 scheduler.
    Credit2(Credit2Config),
    /// The fair class of Linux, with control groups.
    Fair(FairConfig),
    /// One vCPU per pCPU.
    Null,
    /// lowtail's own rule.
    SmallFirst(SmallFirstConfig),
}

impl SchedulerConfig {
    /// The scheduler, at rest.
    pub fn build(&self) -> Box<dyn Scheduler> {
        match self {
            SchedulerConfig::Credit(config) => Box::new(Credit::new(config.clone())),
            SchedulerConfig::Credit2(config) => Box::new(Credit2::new(config.clone())),
            SchedulerConfig::Fair(config) => Box::new(Fair::new(config.clone())),
            SchedulerConfig::Null => Box::new(Null::new()),
            SchedulerConfig::SmallFirst(config) => Box::new(SmallFirst::new(config.clone())),
        }
    }

    /// Whether it enforces caps. `null` cannot, credit2 does since 4.10; Linux limits groups.
    pub fn has_caps(&self) -> bool {
        match self {
            SchedulerConfig::Credit(_) | SchedulerConfig::SmallFirst(_) => true,
            SchedulerConfig::Credit2(config) => config.version >= Credit2Version::Xen410,
            SchedulerConfig::Fair(_) | SchedulerConfig::Null => false,
        }
    }

    /// Whether it enforces the limits of control groups.
    pub(super) fn has_cgroups(&self) -> bool {
        match self {
            SchedulerConfig::SmallFirst(_) | SchedulerConfig::Fair(_) => true,
            SchedulerConfig::Credit(_) | SchedulerConfig::Credit2(_) | SchedulerConfig::Null => {
                false
            }
        }
    }

    /// Refuses what the hypervisor or kernel would refuse.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self {
            SchedulerConfig::Credit(config) => config.check(),
            SchedulerConfig::Credit2(config) => config.check(),
            SchedulerConfig::Fair(config) => config.check(),
            SchedulerConfig::Null => Ok(()),
            SchedulerConfig::SmallFirst(config) => config.check(),
        }
        .map_err(ConfigError::Scheduler)
    }
}
