//! Networks in scenario files: machines, links, switches, and the traffic between their ends.
//!
//! `file.rs` is what is written, `queue.rs` the disciplines in it, `build.rs` makes a network of
//! it, `world.rs` runs network and hosts in one clock, `watch.rs` looks at single
//! links.

pub(crate) mod build;
pub mod file;
pub mod queue;
pub mod watch;
pub(crate) mod world;

pub use file::{EndFile, NetworkFile, TrafficFile};
