//! What changes a Linux host: a [`policy`] file becomes the [`desired`] state of its VMs, [`reconcile`] keeps that in force while
//! VMs come and go, and [`manage`] changes knobs with the inverse of each step on disk before it.

pub mod desired;
pub mod flow;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
pub mod guard;
pub mod libvirt;
pub mod manage;
pub mod policy;
pub mod reconcile;
pub mod vcpu;
pub mod workers;
pub mod xen;

pub use lowtail_kernel::Error;
