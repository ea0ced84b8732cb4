//! What tests of several crates share.

pub mod allocations;
#[cfg(feature = "host")]
pub mod boot;
#[cfg(feature = "host")]
pub mod guest;
#[cfg(feature = "host")]
pub mod needs;
#[cfg(feature = "host")]
pub mod net;
#[cfg(feature = "netback")]
pub mod netback;
pub mod seed;
#[cfg(feature = "host")]
pub mod steps;
pub mod switches;
#[cfg(feature = "host")]
pub mod tap;
#[cfg(feature = "host")]
pub mod traced;
#[cfg(feature = "host")]
pub mod traffic;
#[cfg(feature = "host")]
pub mod tree;
pub mod tries;
#[cfg(feature = "host")]
pub mod xen;
