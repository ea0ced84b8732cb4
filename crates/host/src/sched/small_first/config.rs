//! The parameters of small-first.

pub use lowtail_policy::Params;
use schemars::JsonSchema;
use serde::Deserialize;

/// Parameters of the scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmallFirstConfig {
    /// The rule's own.
    pub params: Params,
    /// What a VM's weight is for.
    pub weight_per: WeightPer,
}

/// What a VM's weight is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WeightPer {
    /// The VM as a whole, however many vCPUs it has, as libvirt's shares.
    #[default]
    Vm,
    /// Each of its vCPUs, as under Xen's schedulers: a VM with four of them has four times the
    /// weight.
    Vcpu,
}

impl SmallFirstConfig {
    /// Refuses what the rule's arithmetic is not made for.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.params.check()
    }
}
