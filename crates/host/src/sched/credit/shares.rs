//! Who takes part in the accounting of credit, and the sums over them.

use super::config::CreditConfig;
use crate::host_state::HostState;
use crate::ids::{Dom, Vcpu};

/// Who takes part in the accounting, and the sums over them.
#[derive(Debug)]
pub(super) struct Shares {
    /// Domains with active vCPUs, in the order in which they are served.
    pub(super) doms: Vec<Dom>,
    /// The same during an accounting, which changes the order.
    pub(super) serving: Vec<Dom>,
    /// Active vCPUs by domain, last activated first.
    pub(super) active: Vec<Vec<Vcpu>>,
    /// Sum of the weights: of active domains in 2007, of active vCPUs since.
    pub(super) weight: i64,
    /// What all pCPUs together are worth per slice.
    pub(super) credit: i64,
    /// Credits of all active vCPUs after the last top-up.
    pub(super) balance: i64,
    /// Accountings that changed priorities, after which queues are sorted (`runq_sort`).
    pub(super) period: u32,
    /// Ticks of pCPU 0 in 2007, every third of which is an accounting.
    pub(super) ticks: u64,
    pub(super) per_slice: i64,
}

impl Shares {
    pub(super) fn new(config: &CreditConfig) -> Self {
        Shares {
            doms: Vec::new(),
            serving: Vec::new(),
            active: Vec::new(),
            weight: 0,
            credit: 0,
            balance: 0,
            period: 0,
            ticks: 0,
            per_slice: config.credits_per_slice(),
        }
    }

    pub(super) fn start(&mut self, host: &HostState) {
        self.doms.reserve(host.doms.len());
        self.serving.reserve(host.doms.len());
        self.active = host.doms.iter().map(|d| Vec::with_capacity(d.vcpus.len())).collect();
        self.credit = self.per_slice * i64::from(host.pcpus.len());
    }
}
