//! The network of the lowtail simulator: packets, queues, NICs, links, switches, TCP, and
//! topologies made of them.
//!
//! It knows no host: where a packet needs a processor, it is handed out, and comes back when
//! that has been had.

pub mod bql;
pub mod packet;
pub mod queue;
