//! What those who change a host have to know of an observation: a small type, so that neither side knows the other.

use serde::{Deserialize, Serialize};

/// A VM's figures over one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmEffect {
    /// Its name, as given: data.
    pub name: String,
    /// Its process: two VMs may have one name.
    pub pid: u32,
    /// Median wake-up latency of its vCPUs.
    pub wakeup_latency_p50_seconds: Option<f64>,
    /// p99 of it.
    pub wakeup_latency_p99_seconds: Option<f64>,
    /// Run time of all its threads, in CPUs: 1 is one CPU all the time.
    pub cpus_used: f64,
    /// Ready time of its vCPUs, of their run and ready time, 0 to 1.
    pub ready_ratio: Option<f64>,
}
