//! The clockwork under the lowtail simulator: [`time`], the event [`queue`],
//! named random [`stream`]s and latency [`hist`]ograms.
//!
//! This crate knows no host and no packet. Everything in it is deterministic:
//! the same calls in the same order give the same bits on every machine.

pub mod hist;
pub mod queue;
pub mod spread;
pub mod stream;
pub mod time;

pub use hist::Hist;
pub use queue::{EventQueue, Timer};
pub use spread::Spread;
pub use stream::Stream;
pub use time::{Duration, Time};
