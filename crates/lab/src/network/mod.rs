//! Networks in scenario files: hosts, links, switches, and the traffic between their ends.
//!
//! `file.rs` is the table of the network, with `topology.rs` and the disciplines of `queue.rs` in it, `traffic.rs` those of
//! the traffic, with `pattern.rs` and `tcp.rs`. `build.rs` makes a network of what is written, `links.rs` one
//! of a host that is simulated alone, `world.rs` runs network and hosts in one clock, `watch.rs` looks at single links,
//! `blame.rs` says whose bytes were in front of whose packets,
//! `kernel.rs` and `tc.rs` say how a kernel can have the same,
//! `list.rs` reads transfers and writes when they were complete.

pub mod blame;
pub(crate) mod build;
pub mod file;
pub mod kernel;
pub mod links;
pub mod list;
pub mod outcome;
pub mod pattern;
pub mod queue;
pub mod tc;
pub mod tcp;
pub mod topology;
pub mod traffic;
pub mod watch;
pub mod world;

pub use build::NetworkCase;
pub use file::NetworkFile;
pub use traffic::{EndFile, TrafficFile};
