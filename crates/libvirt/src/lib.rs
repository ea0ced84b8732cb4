//! What of libvirt matters for sharing out processors: its ranges, and its names of control
//! groups.
//!
//! Written from libvirt's documentation (`formatdomain.rst`, `cgroups.rst`) and from what its
//! drivers do; knows no simulator and no live host.

pub mod capabilities;
pub mod cpus;
pub mod cputune;
pub mod domain;
mod element;
pub mod error;
pub mod labels;
pub mod name;
pub mod range;

pub use capabilities::Capabilities;
pub use cpus::Cpus;
pub use cputune::{Cputune, Policy};
pub use domain::{Domain, Position, Positions};
pub use error::DomainError;
pub use labels::{Label, labels};
