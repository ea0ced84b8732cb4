//! What is changed on a host, and exactly back again.
//!
//! A [`Setting`] says what a [`Knob`] shall have. [`plan()`] reads what is there and says what would change;
//! [`HostLock::apply`] does it, with the inverse of all steps on disk before the first one ([`Ledger`]);
//! [`HostLock::revert`] restores what was there, byte for byte, also after a kill at any moment. What somebody else has
//! changed meanwhile is told and left alone. [`status()`] says what is in force.
//!
//! Nothing here knows of policies: where settings come from is the caller's.

mod apply;
mod domains;
mod error;
mod execute;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzz;
mod host_lock;
mod knob;
mod ledger;
mod order;
mod plan;
mod revert;
mod setting;
mod status;
mod step;
mod wanted;

pub use apply::Applied;
pub use error::Error;
pub use host_lock::{HostLock, holder};
pub(crate) use knob::cpus;
pub use knob::cpus::parse as parse_cpus;
pub use knob::{
    Affinity, Group, Key, Knob, Libvirt, Network, OfDomain, OfPool, OfVcpu, Part, Sched, Thread,
    Xen,
};
pub use ledger::{Entry, Ledger};
pub use plan::{Change, Foreign, Plan, Refused, Unreadable, plan, plan_wanted};
pub use revert::Reverted;
pub use setting::Setting;
pub use status::{Now, Row, Status, status};
pub use step::{Checkpoint, Failed, OnError, Step};
pub use wanted::{Unknown, Wanted};
