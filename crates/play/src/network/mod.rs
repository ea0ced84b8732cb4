//! A network played by a kernel: a namespace for each host, virtual links, bridges for switches, disciplines of `tc`, and
//! threads that talk through real sockets.
//!
//! `plan.rs` is what there is to be, `cabling.rs` and `iproute.rs` make it, `sockets.rs` and `conversation.rs` have the
//! ends talk as [`TrafficConfig`](lowtail_net::TrafficConfig) says, `run.rs` has all start at once and reads what came of it.
//! `simulate.rs` measures the same of a simulated network.
//!
//! The namespaces have no names: they live as long as this process has their files open, and all that is in them goes with
//! them, however the process ends.

mod cabling;
mod conversation;
mod iproute;
mod measured;
mod plan;
mod run;
mod simulate;
mod sockets;

pub use measured::{NetworkMeasured, TrafficMeasured};
pub use plan::NetworkPlan;
pub use run::run;
pub use simulate::simulate;
