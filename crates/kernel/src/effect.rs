//! What those who change a host have to know of an observation: a small type, so that neither side knows the other.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

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

/// What a VM has waited and run for in one interval: what a change is judged by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VmSample {
    /// Its process and when that began, in clock ticks.
    pub id: (u32, u64),
    /// How long that was.
    pub interval_ns: u64,
    /// Wake-up latencies of its vCPUs.
    pub wakes: Histogram,
    /// Run time of all its threads.
    pub run_ns: u64,
    /// Ready time of its vCPUs.
    pub ready_ns: u64,
}

impl VmSample {
    /// Adds what came in another interval.
    pub fn merge(&mut self, other: &VmSample) {
        self.interval_ns += other.interval_ns;
        self.wakes.merge(&other.wakes);
        self.run_ns += other.run_ns;
        self.ready_ns += other.ready_ns;
    }
}
