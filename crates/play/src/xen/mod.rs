//! Scenarios played by a real Xen: the VMs of the configuration as paravirtualised guests, from dom0.
//!
//! [`Guests`] makes guests once and plays one scenario after the other with them: the scheduler is that of a pool of pCPUs, which is made
//! anew for each. What a guest does comes by xenstore, and so does what it has measured ([`serve()`] is its side). CPU time is what
//! Xen says. Request servers have their clients in dom0, each with an interface of netback's to its guest.

mod calibrate;
mod client;
mod costs;
mod guest;
mod guests;
mod message;
mod pool;
mod suit;

pub use calibrate::{calibrate, calibrate_requests};
pub use costs::{RequestCosts, XenCosts};
pub use guest::serve;
pub use guests::{Guests, Images};
pub use suit::{guests_for, suits};
