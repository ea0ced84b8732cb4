//! What those who change a host have to know of an observation: a small type, so that neither side knows the other.

use serde::{Deserialize, Serialize};

/// A machine's figures over one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmEffect {
    /// Its name, as given: data.
    pub name: String,
    /// Half of its vCPUs' wake-ups were not later than this, in microseconds.
    pub wake_p50_us: Option<f64>,
    /// 99 in 100 were not.
    pub wake_p99_us: Option<f64>,
    /// CPU time of all its threads, in percent of one CPU.
    pub cpu_percent: f64,
    /// The part of the time that its vCPUs wanted a CPU and had none, in percent.
    pub waits_percent: Option<f64>,
}
