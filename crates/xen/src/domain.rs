//! A domain, as the toolstack tells of it.

use lowtail_kernel::Name;
use serde::Serialize;

use crate::toolstack::DomainId;

/// A vCPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VcpuInfo {
    /// Its number within the domain.
    pub vcpu: u32,
    /// The pCPU that it runs on or has run on last.
    pub pcpu: Option<u16>,
    /// Whether the domain has it online.
    pub online: bool,
    /// CPU time that it has had since it began, in seconds.
    pub run_time_seconds: Option<f64>,
    /// The pCPUs that it may run on, such as `0-3` or `all`.
    pub hard_affinity: String,
    /// Those on which it runs if it can.
    pub soft_affinity: String,
}

/// A network interface of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vif {
    /// What it is called in dom0.
    #[serde(rename = "name")]
    pub interface: String,
    /// Its hardware address.
    pub mac: Option<String>,
    /// The bridge that it is at.
    pub bridge: Option<String>,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DomainInfo {
    /// What Xen calls it.
    #[serde(rename = "domain_id")]
    pub id: DomainId,
    /// What its maker calls it for ever; `None` if the toolstack does not say.
    pub uuid: Option<String>,
    /// Its name, chosen by who has made it.
    pub name: Name,
    /// `pv`, `pvh` or `hvm`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The pool that it is in.
    pub pool: Option<String>,
    /// Its weight, if its scheduler has weights.
    pub weight: Option<u32>,
    /// The CPU time that it may have at most, in percent of a pCPU; 0: no limit.
    pub cap_percent: Option<u32>,
    /// Its vCPUs.
    pub vcpus: Vec<VcpuInfo>,
    /// Its network interfaces.
    #[serde(rename = "interfaces")]
    pub vifs: Vec<Vif>,
}
