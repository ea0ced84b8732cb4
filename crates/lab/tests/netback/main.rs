//! The way of a packet from end to end: a host with a driver domain, its links, and the datagram
//! flows on them.

mod bed;
mod conserve;
mod events;
mod fairness;
mod kernel;
mod throughput;
