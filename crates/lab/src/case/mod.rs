//! From the cases of a scenario file to hosts that can be run.
//!
//! `expand.rs` builds a point for each case and each combination of its variables (`variables.rs`) from the tree of the file,
//! brought into serde's form (`normalize.rs`); `host.rs` makes the hosts and the network of a point, `rows.rs` the rows that it
//! yields. What comes out is in `spec.rs`.

mod contradiction;
pub(crate) mod error;
mod expand;
mod host;
pub(crate) mod normalize;
mod rows;
pub mod spec;
mod topology;
pub(crate) mod variables;

pub(crate) use expand::expand;
pub use spec::{Case, HostCase, RowSpec, VmKind, VmRef, VmThreads};
