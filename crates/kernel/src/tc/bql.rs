//! Byte queue limits of a NIC's transmit rings (`lib/dynamic_queue_limits.c`).

use std::fs;
use std::path::Path;

/// Whether the bytes in the rings of the interface `name` are limited; `sys` is where `/sys` is. A driver that takes part has a limit
/// above 0 as soon as it has sent something.
pub fn is_limited(sys: &Path, name: &str) -> bool {
    let queues = sys.join("class/net").join(name).join("queues");
    let entries = fs::read_dir(queues).into_iter().flatten().flatten();
    let is_tx = |queue: &fs::DirEntry| queue.file_name().as_encoded_bytes().starts_with(b"tx-");
    entries.filter(is_tx).any(|queue| {
        let limit = fs::read_to_string(queue.path().join("byte_queue_limits/limit"));
        limit.ok().and_then(|limit| limit.trim().parse().ok()).is_some_and(|limit: u64| limit > 0)
    })
}
