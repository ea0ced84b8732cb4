//! The clockwork under the lowtail simulator: [`time`], the event [`queue`] of a host, the
//! [`calendar`] of a network, named random number generators ([`rng`]) and latency [`hist`]ograms.
//!
//! This crate knows no host and no packet. Everything in it is deterministic:
//! the same calls in the same order give the same bits on every machine.
//!
//! There are two queues since neither serves both at no loss: with 10,000 events pending, as in a
//! network, the calendar takes 30 ns of processor time for an event and the heap 73, but with 10
//! pending, as on a host of a few pCPUs, slots over a calendar, which could cancel as the heap can,
//! take 59 ns and the heap 51 (with 30 pending 56 and 64; `benches/hold.rs`, one run). The order of
//! events (`order.rs`) and the clock that they move (`clock.rs`) are the same.

pub mod calendar;
mod clock;
pub mod distribution;
mod heap;
pub mod hist;
mod order;
pub mod prefetch;
pub mod queue;
pub mod rng;
pub mod time;

pub use calendar::Calendar;
pub use clock::AdvanceError;
pub use distribution::Distribution;
pub use hist::Hist;
pub use queue::{EventQueue, Timer};
pub use rng::Rng;
pub use time::{Duration, Time};
