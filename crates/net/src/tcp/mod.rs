//! TCP: one direction of a connection, its two ends.
//!
//! Both are pure state machines: they are told what has come and asked what to send; the network
//! around them sends it, and opens and closes connections. Bytes are numbered from zero in 64
//! bits; the peer's window does not shrink.

mod config;
pub mod congestion;
pub mod hystart;
pub mod ranges;
pub mod receiver;
pub mod sender;

pub use config::{DELAYED_ACK, FLAG_ECHO, FLAG_SMALL_QUEUE, TcpConfig};
pub use congestion::Control;
pub use receiver::{Answer, Receiver, Sack};
pub use sender::{Expiry, Sender};
