//! Records a host's schedule, for `lowtail trace`.
//!
//! The programs in the kernel (`bpf/record.bpf.c`) write each CPU's events into a ring of its own, over and over.
//! [`Recorder::run`] copies them into a file as they come. [`Recorder::watch`] leaves them where they are until
//! a VM's thread has waited for too long; then [`Recorder::keep`] writes what the rings still have.
//! `docs/reference/record.md` has the format, and what recording costs.

mod attributes;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
mod introduced;
mod names;
mod places;
mod programs;
mod queues;
mod recorder;
mod rings;
mod scheduling;

use std::io;
use std::time::Duration;

pub use recorder::{Recorder, Summary};

use lowtail_discover::Declared;
use lowtail_kernel::Roots;

/// Memory of all CPUs' rings together goes up to this.
pub const RINGS_BYTES_MAX: u64 = 1 << 30;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kernel tells about threads.
    pub roots: Roots,
    /// VMs by the user's word.
    pub declared: Vec<Declared>,
    /// A wait of a VM's thread that is longer is too long; `None`: nobody watches.
    pub threshold: Option<Duration>,
    /// Memory of each CPU's ring, in bytes; what is used is a power of two, and at most that. An event takes 16.
    pub ring_bytes: u64,
    /// Whether to tell who fills the uplinks, too.
    pub network: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (roots, declared) = (Roots::default(), Vec::new());
        Options { roots, declared, threshold: None, ring_bytes: 16 << 20, network: true }
    }
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The host does not let it.
    #[error(transparent)]
    Host(#[from] lowtail_kernel::Error),
    /// The recording cannot be written.
    #[error("writing failed: {0}")]
    Write(#[from] io::Error),
    /// Nobody's waits would count.
    #[error("no VM whose waits could be too long: {0}")]
    Nobody(String),
}
