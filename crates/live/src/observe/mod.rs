//! Which machine waits, in which queue, because of whom.

mod diagnosis;
mod histogram;
mod snapshot;

pub use diagnosis::{Cause, Diagnosis, Finding, Queue, Thresholds, Trouble};
pub use histogram::{BUCKETS, Histogram};
pub use snapshot::{
    Blame, Drop, Lost, Network, Snapshot, ThreadSnapshot, Throttled, VmSnapshot, Who,
};
