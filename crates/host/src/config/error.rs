//! What is wrong with a configuration.

use lowtail_engine::Duration;

use crate::cpu_set::CpuSet;
use crate::topology::TopologyError;

/// What is wrong with a [`Config`](super::Config).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No pCPUs, or more than a host can have.
    #[error("{0} pCPUs: a host has 1 to 1024")]
    Pcpus(u16),
    /// What pCPUs share.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A speed that is none.
    #[error("a speed of {0} % beside a busy sibling: 1 to 100")]
    SiblingSpeed(u16),
    /// A domain without vCPUs, or more vCPUs than can be numbered.
    #[error("VM `{0}`: 1 to 1024 vCPUs")]
    Vcpus(String),
    /// A domain whose weight is zero.
    #[error("VM `{0}`: weight 0; Xen accepts 1 to 65535")]
    Weight(String),
    /// A cap beyond what the vCPUs could use.
    #[error("VM `{name}`: cap {cap} %, but {vcpus} vCPUs use {most} % at most; 0 is no cap")]
    Cap {
        /// The domain.
        name: String,
        /// The cap asked for.
        cap: u16,
        /// Its vCPUs.
        vcpus: u16,
        /// Percent that they can use.
        most: u32,
    },
    /// A domain that may run nowhere.
    #[error("VM `{name}`: pinned to {pinned:?}, but the host has pCPUs 0 to {last}")]
    Pinned {
        /// The domain.
        name: String,
        /// Where it should run.
        pinned: Box<CpuSet>,
        /// The last pCPU that there is.
        last: u16,
    },
    /// `null` and not enough pCPUs.
    #[error("scheduler `null` needs a pCPU for each vCPU; vCPU {0} finds none")]
    NoRoom(u16),
    /// A workload for one vCPU in a domain with several.
    #[error("VM `{0}`: this workload has one vCPU")]
    OneVcpu(String),
    /// Parts that are not parts of one domain.
    #[error(
        "VM `{0}`: a mix has 1 to 255 parts, which have all its vCPUs among them, each at least \
         one, and no partners, clients, interfaces, devices or mixes"
    )]
    Mix(String),
    /// A partner, or a client, that does not exist or does not play.
    #[error("VM `{name}`: its partner `{partner}` {why}")]
    Partner {
        /// The domain.
        name: String,
        /// The partner that it names.
        partner: String,
        /// What is wrong with that one.
        why: String,
    },
    /// A pause that takes no time, or begins before the last one is over.
    #[error(
        "VM `{name}`: a pause at {at}: it takes some time, and begins at {last} at the earliest"
    )]
    Pause {
        /// The domain.
        name: String,
        /// When the pause begins.
        at: Duration,
        /// When the one before is over.
        last: Duration,
    },
    /// NICs or interfaces that nobody drives, or too many of them.
    #[error("{0}")]
    Driver(String),
    /// A cap under a scheduler that has none.
    #[error("VM `{0}`: no caps here; credit has them, and credit2 since Xen 4.10")]
    NoCaps(String),
    /// A control group, or a thread, that the kernel refuses.
    #[error("{0}")]
    Cgroup(String),
    /// A scheduler parameter that Xen refuses.
    #[error("{0}")]
    Scheduler(String),
}
