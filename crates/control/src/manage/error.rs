//! Why nothing was changed, or not all.

use std::io;
use std::path::PathBuf;

use lowtail_kernel::Name;

/// Why something could not be planned, applied or reverted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else is changing this host.
    #[error("{} is changing this host already; wait until it has ended, or end it", who(*.pid))]
    Held {
        /// The process, if it has said so.
        pid: Option<u32>,
    },
    /// The ledger or its lock, or where they are. Nothing was changed without being written down.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The ledger cannot be read in whole.
    #[error(
        "{}: {lines} of its lines cannot be read; `lowtail host revert` restores what the others say, and keeps it aside",
        path.display()
    )]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// How many.
        lines: usize,
    },
    /// A later lowtail has written it.
    #[error("{} is of version {version} of its format, this lowtail knows 1 and 2; use the one that wrote it", path.display())]
    Version {
        /// The ledger.
        path: PathBuf,
        /// Which.
        version: u64,
    },
    /// Somebody has changed it between plan and apply. Nothing was changed.
    #[error(
        "{knob} was `{}` when it was planned and is `{}` now; plan again",
        Name::new(planned),
        Name::new(now)
    )]
    Moved {
        /// Where, as people call it.
        knob: String,
        /// What was read then.
        planned: String,
        /// What is read now.
        now: String,
    },
}

fn who(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
}
