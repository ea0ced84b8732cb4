//! Hosts for the lowtail simulator: physical CPUs, virtual CPUs, the schedulers that
//! put one on the other, and the guests that compute, sleep and answer.
//!
//! A [`Config`] describes a host, a [`Host`] runs
//! it. Schedulers stand behind one trait, [`Scheduler`](sched::Scheduler), one file each.

pub mod cgroup;
pub mod config;
mod core;
pub mod costs;
pub mod cpu_set;
pub mod event;
pub mod guest;
pub mod host;
pub mod host_state;
pub mod ids;
pub mod io;
mod keep;
pub mod notification;
pub mod record;
pub mod sched;
pub mod stats;
pub mod topology;

pub use config::{Config, ConfigError, SIBLING_SPEED_PERCENT, SchedulerConfig, VmConfig, Workload};
pub use costs::{Costs, Way};
pub use cpu_set::CpuSet;
pub use host::Host;
pub use ids::{Cgroup, Dom, Pcpu, Vcpu};
pub use topology::{Topology, TopologyError};
