//! What `lowtail lab check` has found, here or in a guest.

use lowtail_play::report::Checked;
use serde::Deserialize;

/// What all scenarios have shown.
#[derive(Debug, Deserialize)]
pub(super) struct Found {
    /// The kernel's release.
    pub(super) kernel: String,
    /// The scenarios.
    pub(super) scenarios: Vec<Checked>,
}
