//! VMs that no entry is for.

use schemars::JsonSchema;
use serde::Deserialize;

/// What the weight becomes of VMs that no `[[vm]]` fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// What it is now. The default where the file has a `[[vm]]`: whoever names one VM does not mean all others.
    Keep,
    /// 100 for each vCPU. The default of a file without `[[vm]]`.
    Weigh,
}
