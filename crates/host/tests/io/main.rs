//! The way of a packet through the host, from end to end.

mod conserve;
mod events;
mod fairness;
mod host;
mod kernel;
mod port;
#[allow(dead_code, reason = "random guests are for the tests of schedulers")]
#[path = "../random/mod.rs"]
mod random;
mod throughput;
