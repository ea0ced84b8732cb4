//! The network as a whole against theory: queues, TCP, disciplines with TCP, conservation,
//! determinism.
//!
//! Expected values come from theory, an RFC or a fact about Linux, said where they stand.

mod aqm;
mod bed;
mod blame;
mod connections;
mod conservation;
mod datagrams;
mod determinism;
mod queueing;
mod shared;
mod tcp_long;
mod tcp_loss;
mod tcp_marks;
mod tcp_start;
