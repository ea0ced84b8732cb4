//! Control groups and threads of a live Linux host: the scenario that the simulator plays,
//! played by real threads in real control groups.
//!
//! [`run()`] takes the same [`Config`](lowtail_host::Config) as a
//! [`Machine`](lowtail_host::Machine) and gives [`Measured`], as [`simulate()`] does;
//! [`compare()`] puts one beside the other. [`scale()`] makes a scenario fit a smaller host.
//!
//! What is made on the host ([`cgroup::Tree`]) is written down in a [`journal`] before it is
//! made. It is removed when the run ends, however that happens, and if the process was killed,
//! by the next one.
//!
//! What is changed of what others have made (machines, their threads and groups) goes through [`manage`], with the
//! inverse of each step on disk before it; [`keep`] does so for machines that come and go.

mod bpf;
mod btf;
pub mod cgroup;
mod clock;
pub mod compare;
pub mod discover;
pub mod doctor;
pub mod error;
pub mod flow;
pub mod journal;
pub mod keep;
mod kernel;
pub mod libvirt;
mod machines;
pub mod manage;
pub mod marks;
pub mod measured;
pub mod observe;
mod plan;
pub mod policy;
mod process;
pub mod record;
pub mod run;
pub mod scale;
#[cfg(test)]
#[path = "../tests/common/seed.rs"]
mod seed;
pub mod signals;
pub mod simulate;
pub mod tc;
pub mod thread;
mod troubles;
pub mod vcpu;
pub mod want;
mod work;
pub mod workers;

pub use compare::{Comparison, Judge, compare};
pub use error::Error;
pub use measured::{GroupMeasured, Measured, VmMeasured};
pub use run::{Options, run};
pub use scale::scale;
pub use simulate::simulate;
