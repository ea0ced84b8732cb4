//! How a `perf.data` begins.

/// A file's first bytes, in this host's byte order.
pub(super) const MAGIC: &[u8] = b"PERFILE2";
/// Bytes of a file's head.
pub(super) const HEAD_BYTES: usize = 104;
/// Bytes of a pipe's head.
pub(super) const PIPE_HEAD_BYTES: u64 = 16;
