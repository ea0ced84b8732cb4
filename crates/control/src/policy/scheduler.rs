//! Who schedules vCPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who schedules vCPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The rule small-first where the kernel has sched_ext, else the kernel's fair class.
    #[default]
    Auto,
    /// The rule small-first; an error where the kernel has no sched_ext.
    SchedExt,
    /// The kernel's fair class, with weights, caps and slices.
    Fair,
    /// Whoever does it now: VMs' weights, caps and slices are left alone.
    None,
}
