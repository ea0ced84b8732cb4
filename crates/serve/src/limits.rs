//! What a client may take.

use std::time::Duration;

/// Bytes of a request's line and headers, at most. The HTTP library's buffer has no smaller size.
pub const HEAD_BYTES: usize = 8192;

/// How long a client may take, and how many at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From a connection's being accepted to the end of its head.
    pub head: Duration,
    /// For how long the client may take nothing of an answer.
    pub stall: Duration,
    /// From a connection's being accepted to its end.
    pub whole: Duration,
    /// Connections whose head has not come yet, at least 1.
    pub reading: usize,
    /// Connections that get their answer, at least 1.
    pub writing: usize,
}

impl Default for Limits {
    /// A scraper sends its head in one packet and reads as fast as it can: seconds are for slow networks.
    /// All seats together are a fifth of the 1024 files that a process usually may have open.
    fn default() -> Self {
        Limits {
            head: Duration::from_secs(5),
            stall: Duration::from_secs(5),
            whole: Duration::from_secs(15),
            reading: 128,
            writing: 64,
        }
    }
}
