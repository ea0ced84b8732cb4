//! Scenarios played by a real kernel: the configuration that the simulator takes, by real threads in real control groups.
//!
//! [`run()`] takes the same [`Config`](lowtail_host::Config) as a [`Host`](lowtail_host::Host) and gives [`Measured`], as
//! [`simulate()`] does; [`compare()`] puts one beside the other. [`scale()`] makes a scenario fit a smaller host.
//! [`check`](mod@check) says how near the figures of random scenarios are, a [`Report`] has them all, and [`fidelity`] judges that.
//!
//! Groups that a run makes ([`lowtail_kernel::cgroup::Tree`]) are in a journal before they are made. They are removed when the run
//! ends, however that happens, and if the process was killed, by the next one.

pub mod calibrate;
pub mod check;
pub mod compare;
pub mod fidelity;
pub mod figure;
pub mod measured;
pub mod network;
mod plan;
pub mod report;
pub mod run;
pub mod scale;
pub mod simulate;
mod spin;
pub mod starts;
pub mod tally;
mod vms;
mod watch;
mod work;
pub mod xen;

pub use compare::{Comparison, Judge, compare, compare_networks};
pub use lowtail_kernel::Error;
pub use measured::{GroupMeasured, Measured, VmMeasured};
pub use report::Report;
pub use run::{Options, run};
pub use scale::scale;
pub use simulate::simulate;
