//! Which machine waits, in which queue, because of whom.

mod histogram;
mod network;
mod snapshot;

pub use histogram::{BUCKETS, Histogram};
pub use network::{Interface, Path, PathLost, PathOptions};
pub use snapshot::{
    Blame, Drop, Lost, Network, Snapshot, ThreadSnapshot, Throttled, VmSnapshot, Who,
};
