//! A Xen host in its own terms, from its control domain (dom0) and from its guests.
//!
//! [`Store`] is xenstore, by which both talk; [`VcpuClock`] reads what CPU time vCPUs have got; [`OwnVcpu`] is what a program asks of
//! Xen for its own; [`Toolstack`] makes domains and pools of pCPUs with `xl`; [`Survey`] is what `xl` says of all that there is,
//! [`live`] reads and writes single values of it, and [`Xentrace`] is what Xen's scheduler does meanwhile.

mod affinity;
mod domain;
mod domains;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
mod hypercalls;
mod identity;
mod info;
pub mod live;
mod pools;
mod presence;
mod scheduler;
mod shares;
mod store;
mod survey;
mod table;
mod toolstack;
mod vcpu;
mod vcpu_clock;
mod vcpu_list;
mod xentrace;
mod xl;

pub use affinity::Affinity;
pub use domain::{DomainInfo, VcpuInfo, Vif};
pub use error::Error;
pub use identity::DomainKey;
pub use info::HypervisorInfo;
pub use pools::PoolInfo;
pub use presence::Presence;
pub use scheduler::{
    CREDIT2_UNTICKLED_SINCE, RATELIMIT_US, Scheduler, SchedulerParameters, TIMESLICE_MS,
};
pub use shares::Shares;
pub use store::{LONGEST_VALUE, Store};
pub use survey::Survey;
pub use toolstack::{Domain, DomainId, NewDomain, Toolstack};
pub use vcpu::OwnVcpu;
pub use vcpu_clock::VcpuClock;
pub use xentrace::Xentrace;
