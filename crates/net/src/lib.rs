//! The network of the lowtail simulator: packets, queues, NICs, links, switches, TCP, and
//! topologies made of them.
//!
//! It knows no host: where a packet needs a processor, it is handed out, and comes back when
//! that has been had.

pub mod bql;
pub mod datagram;
pub mod flow;
pub mod net;
pub mod packet;
pub mod pcapng;
pub mod port;
pub mod queue;
pub mod rate;
mod slab;
pub mod tcp;
pub mod topology;
pub mod traffic;

pub use datagram::{DatagramConfig, DatagramFlow};
pub use net::{
    BlameConfig, EndConfig, Net, NetConfig, NetEvent, PortBlame, Sample, Tap, TapConfig, Waiter,
};
pub use packet::End;
pub use port::{LinkConfig, NicConfig, Port};
pub use rate::Rate;
pub use topology::{Clos, Place, Shape};
pub use traffic::{Connection, ListedFlow, Pattern, Size, TrafficConfig};
