//! Which machine waits, in which queue, because of whom.

mod histogram;
mod snapshot;

pub use histogram::{BUCKETS, Histogram};
pub use snapshot::{
    Blame, Drop, Lost, Network, Snapshot, ThreadSnapshot, Throttled, VmSnapshot, Who,
};
