//! What `lowtail lab check` has found, here or in a guest.

use lowtail_play::check::Figure;
use serde::{Deserialize, Serialize};

/// What one scenario showed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Checked {
    /// Its number.
    pub(super) scenario: u32,
    /// What both measured.
    pub(super) figures: Vec<Figure>,
}

/// What all have shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Report {
    /// The kernel's release.
    pub(super) kernel: String,
    /// The scenarios.
    pub(super) scenarios: Vec<Checked>,
}
