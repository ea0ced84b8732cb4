//! Serves one text over HTTP/1.x to whoever asks, within fixed limits.
//!
//! The process that serves has something more important to do, and some of those who ask mean harm. So:
//!
//! - One thread serves all. If it panics it starts again, and says so.
//! - A connection gets one answer and is closed. Requests with a body are refused, unread.
//! - A head has at most [`HEAD_BYTES`]. The head, each stall in writing and the connection as a whole have
//!   deadlines ([`Limits`]).
//! - Connections that have not sent their head and connections that get their answer have separate
//!   seats. Where all seats are taken, the newcomer gets the seat of the oldest that still reads, or of the
//!   one whose answer has stalled for longest. So nobody keeps others out, however many connections they hold.
//! - A text is made once for each [`Source::version`] and shared by all who get it. At most
//!   [`TEXTS_MAX`] texts are in memory: while slow clients hold that many, others get the newest of those.
//!
//! [`InMemory`] runs one connection over bytes in memory, for tests and for fuzzing.

mod answer;
mod connection;
mod guarded;
mod limits;
mod memory;
mod notices;
mod seats;
mod server;
mod supervise;
mod texts;

pub use limits::{HEAD_BYTES, Limits};
pub use memory::InMemory;
pub use server::serve;
pub use texts::{Site, Source, TEXTS_MAX};
