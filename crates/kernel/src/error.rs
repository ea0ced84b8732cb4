//! What can go wrong on a live host.

use std::io;
use std::path::{Path, PathBuf};

/// Why a scenario could not be played by the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No hierarchy of control groups has the controller `cpu`.
    #[error(
        "no CPU controller of control groups here: neither a mounted cgroup v1 hierarchy with the \
         controller `cpu` nor a cgroup v2 one that has it in cgroup.controllers; mount one \
         (mount -t cgroup2 none /sys/fs/cgroup), or run on a host that has it"
    )]
    NoController,
    /// The kernel does not let this user do it.
    #[error("{what} {}: permission denied; run it as root", path.display())]
    Denied {
        /// What was tried.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
    },
    /// The kernel refuses it for another reason.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A group that may use more than one that it is in.
    #[error(
        "cgroup `{group}`: its quota is a larger part of its period than that of `{parent}`, in which it is; this \
         host's cgroup v1 refuses that; give it a smaller quota, or run on a host with cgroup v2"
    )]
    LimitAboveParent {
        /// The group.
        group: String,
        /// The group that may use less.
        parent: String,
    },
    /// A property of a thread that the kernel refuses.
    #[error("VM `{vm}`, vCPU {vcpu}: {what}: {source}")]
    Thread {
        /// The VM.
        vm: String,
        /// The vCPU, numbered within it.
        vcpu: usize,
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// A thread that could not be started, or has panicked.
    #[error("VM `{vm}`, vCPU {vcpu}: {what}")]
    Worker {
        /// The VM.
        vm: String,
        /// The vCPU, numbered within it.
        vcpu: usize,
        /// What has happened.
        what: String,
    },
    /// What Xen, its toolstack or a guest of it says.
    #[error("{0}")]
    Xen(String),
    /// A part of the scenario that threads cannot play.
    #[error("{0}")]
    Scenario(String),
    /// More processors than there are.
    #[error("{wanted} pCPUs, but only {have} CPUs may be used here")]
    Cpus {
        /// pCPUs of the scenario.
        wanted: usize,
        /// CPUs that there are.
        have: usize,
    },
    /// What the kernel says to a BPF program.
    #[error("{what}: {source:#}; `lowtail host doctor` says what this host lacks")]
    Bpf {
        /// What was tried.
        what: &'static str,
        /// What libbpf says.
        source: libbpf_rs::Error,
    },
    /// The kernel has no memory for what is to be loaded.
    #[error(
        "no memory in the kernel for {0}: free some, or let lowtail's control group have more (memory.max, or \
         memory.limit_in_bytes with cgroup v1)"
    )]
    Memory(String),
    /// Too few files can be opened.
    #[error(
        "programs in the kernel take some 64 open files: {0}; let lowtail have more (ulimit -n)"
    )]
    Files(io::Error),
    /// Which VMs there are cannot be found out.
    #[error("{0}")]
    Unseen(String),
    /// Something of the network that cannot be done.
    #[error("{what}: {why}")]
    Network {
        /// What was tried, and where.
        what: String,
        /// What the kernel says, or why it is not tried.
        why: String,
    },
    /// No scheduler of our own for vCPUs.
    #[error("no scheduler for vCPUs: {0}")]
    Scheduler(String),
    /// A property of a VM's thread that the kernel refuses.
    #[error("thread {tid}: {what}: {source}")]
    Tid {
        /// Its number.
        tid: u32,
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// A signal has asked for an end. Everything has been removed.
    #[error("ended by signal {0}; the control groups are removed")]
    Interrupted(i32),
}

impl Error {
    /// An error about a file; says so if root could do it.
    pub fn file(what: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Denied { what, path },
            _ => Error::File { what, path, source },
        }
    }

    /// An error about the network.
    pub fn network(what: impl Into<String>, why: impl ToString) -> Self {
        Error::Network { what: what.into(), why: why.to_string() }
    }

    /// Whether the scenario is at fault, not the host.
    pub fn is_scenario(&self) -> bool {
        matches!(self, Error::Scenario(_))
    }
}
