//! Watches the goals of VMs after changes, and says what is to be reverted.
//!
//! A judge without hands: it is given [samples](lowtail_kernel::VmSample) of each round and the VMs that have changes in force, and says which
//! VMs are [not to be touched](Guard::waiting). Who applies the policy leaves those out, so that what they had before is
//! restored through the ledger as everything else is.
//!
//! A goal that is broken in two samples in a row, or clearly in one, begins a *trial*: the changes of one VM after the other
//! are reverted, the last one first, until the goal is kept again. That VM's changes stay reverted and are remembered; those
//! of others that were reverted in vain come back. If nothing helps, all come back: the load has changed, not we.

mod audit;
mod decision;
mod figure;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzz;
mod judge;
mod machine;
mod memory;
mod owner;
mod predicted;
#[cfg(test)]
mod tests;
mod trial;
mod watched;

pub use audit::{Audit, Line};
pub use decision::{Decision, Kind};
pub use figure::{Base, Breach, CPU_LEAST, CPU_LOSS, Figure, latency, worse};
pub use judge::{Guard, Options};
pub use machine::{Id, Machine};
pub use memory::{GoalState, Memory, Reverted, State};
pub use owner::Owners;
pub use predicted::{Predicted, VmPredicted};
