//! A Linux host in its own terms: processes, threads, control groups, queueing disciplines, marks of packets, and BPF programs.
//!
//! What looks at a host and what changes it are built on this, and do not know each other.

pub mod bpf;
pub mod btf;
pub mod cgroup;
pub mod clock;
mod effect;
pub mod error;
pub mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
pub mod hangs;
mod histogram;
pub mod journal;
pub mod marks;
mod name;
pub mod netns;
pub mod pace;
pub mod process;
pub mod release;
mod roots;
pub mod sched_ext;
pub mod shared;
pub mod signals;
pub mod syscall;
pub mod tc;
pub mod thread;
pub mod tool;

pub use effect::{VmEffect, VmSample};
pub use error::Error;
pub use histogram::{BUCKETS, Histogram};
pub use name::Name;
pub use roots::Roots;
