//! What tests of several crates share.

pub mod needs;
pub mod net;
pub mod seed;
pub mod steps;
pub mod traffic;
pub mod tree;
pub mod tries;
