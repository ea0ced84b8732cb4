//! A Xen host in its own terms, from its control domain (dom0) and from its guests.
//!
//! [`Store`] is xenstore, by which both talk; [`VcpuClock`] reads what CPU time vCPUs have got; [`OwnVcpu`] is what a program asks of
//! Xen for its own; [`Toolstack`] makes domains and pools of pCPUs with `xl`.

mod error;
mod hypercalls;
mod store;
mod toolstack;
mod vcpu;
mod vcpu_clock;

pub use error::Error;
pub use store::{LONGEST_VALUE, Store};
pub use toolstack::{Domain, DomainId, NewDomain, Toolstack};
pub use vcpu::OwnVcpu;
pub use vcpu_clock::VcpuClock;
