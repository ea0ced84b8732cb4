//! What is changed on a host, and exactly back again.
//!
//! A [`Setting`] says what a [`Place`] shall have. [`plan()`] reads what is there and says what would change;
//! [`Hold::apply`] does it, with the inverse of all steps on disk before the first one ([`Ledger`]);
//! [`Hold::revert`] restores what was there, byte for byte, also after a kill at any moment. What somebody else has
//! changed meanwhile is told and left alone. [`status()`] says what is in force.
//!
//! Nothing here knows of policies: where settings come from is the caller's.

mod apply;
mod domains;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzz;
mod hold;
mod ledger;
mod order;
mod place;
mod plan;
mod revert;
mod setting;
mod status;
mod step;
mod walk;
mod wanted;

pub use apply::Applied;
pub use error::Error;
pub use hold::{Hold, holder};
pub use ledger::{Entry, Ledger};
pub(crate) use place::cpus;
pub use place::{Affinity, Group, Key, Libvirt, Network, Part, Place, Sched, Thread};
pub use plan::{Change, Foreign, Plan, Refused, Unread, plan, plan_wanted};
pub use revert::Reverted;
pub use setting::Setting;
pub use status::{Now, Row, Status, status};
pub use step::{Failed, Moment, OnError, Step};
pub use wanted::{Unknown, Wanted};
