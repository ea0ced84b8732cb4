//! What can go wrong on a Xen host.

use std::io;
use std::path::PathBuf;

/// Why Xen did not do what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A device of Xen's is not there, or says no.
    #[error("{what} {}: {source}; this needs root in a domain of Xen, and for domains its dom0", path.display())]
    Device {
        /// What was tried.
        what: &'static str,
        /// With which device.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Xenstore refuses a request.
    #[error("xenstore, {what} {path}: {says}")]
    Store {
        /// What was tried.
        what: &'static str,
        /// With which node.
        path: String,
        /// What it says, such as ENOENT.
        says: String,
    },
    /// An answer that no version of xenstore gives.
    #[error("xenstore: {0}")]
    Protocol(String),
    /// A command of the toolstack failed, or prints what it prints on no host of Xen's.
    #[error("{command}: {says}")]
    Command {
        /// The command.
        command: String,
        /// What it said, or what is wrong with that.
        says: String,
    },
    /// A program of the toolstack is not installed.
    #[error(
        "there is no `{program}` in /usr/sbin, /sbin, /usr/bin, /bin or /usr/local: it is in xen-utils (Debian, Ubuntu), xen-tools \
         (Qubes, XCP-ng) or xen-runtime (Fedora)"
    )]
    NotInstalled {
        /// Which.
        program: &'static str,
    },
    /// Somebody takes Xen's trace records already: each record goes to one of those who take them.
    #[error("process {pid}, `{program}`, records Xen's trace already; wait for its end, or end it")]
    TraceInUse {
        /// The process.
        pid: u32,
        /// What it runs.
        program: String,
    },
    /// Xen refuses to say what CPU time a vCPU has got.
    #[error("CPU time of vCPU {vcpu} of domain {domain}: {source}")]
    CpuTime {
        /// The domain.
        domain: u16,
        /// The vCPU, numbered within it.
        vcpu: u32,
        /// What Xen says.
        source: io::Error,
    },
}
