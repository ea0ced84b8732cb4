//! Which VM waits, in which queue, because of whom.
//!
//! Programs in the kernel (`bpf/observe.bpf.c`) take the time of each wait of each thread of a VM, and who ran
//! meanwhile; [`Observer`] tells them which threads those are, and fetches what they have gathered.

mod allot;
mod beginners;
mod blame;
mod diagnosis;
pub mod doctor;
mod effects;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
mod kernel;
mod network;
mod observer;
mod pool;
mod queue_blame;
pub mod record;
mod senders;
mod share;
mod slot;
mod snapshot;
mod spent;
mod throttle;
mod tracker;
mod traffic;
mod vm_key;
pub mod xen;

pub(crate) use allot::{Candidate, choose};
pub use diagnosis::{Cause, Culprit, Diagnosis, Finding, Queue, Symptom, Thresholds, Unit};
pub use lowtail_kernel::{BUCKETS, Histogram};
pub use network::{Interface, Path, PathLost, PathOptions};
pub use observer::{Observer, Options, kernel_memory_bytes};
pub use pool::{THREADS_MAX, THREADS_USUAL};
pub use snapshot::{
    Blame, Drop, Lost, Network, QueueBlame, Runner, Sender, Sent, Snapshot, ThreadSnapshot,
    Throttled, Unseen, Uplink, VmSnapshot,
};
