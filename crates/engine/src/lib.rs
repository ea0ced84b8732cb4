//! The clockwork under the lowtail simulator: [`time`], the event [`queue`], a
//! faster one that cannot cancel ([`calendar`]), named random number generators ([`rng`]) and latency
//! [`hist`]ograms.
//!
//! This crate knows no host and no packet. Everything in it is deterministic:
//! the same calls in the same order give the same bits on every machine.

pub mod calendar;
pub mod distribution;
pub mod hist;
pub mod prefetch;
pub mod queue;
pub mod rng;
pub mod time;

pub use calendar::Calendar;
pub use distribution::Distribution;
pub use hist::Hist;
pub use queue::{EventQueue, Timer};
pub use rng::Rng;
pub use time::{Duration, Time};
