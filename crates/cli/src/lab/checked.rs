//! What `lowtail lab check` has found, here or in a guest.

use lowtail_play::report::{Calibrated, Checked, NotPlayed};
use serde::Deserialize;

/// What all scenarios have shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Found {
    /// The kernel's release.
    pub(super) kernel: String,
    /// The scenarios.
    pub(super) scenarios: Vec<Checked>,
    /// Those that could not be played.
    #[serde(default)]
    pub(super) not_played: Vec<NotPlayed>,
    /// Those that were played a second time, with why the first time was none.
    #[serde(default)]
    pub(super) played_again: Vec<NotPlayed>,
    /// What things cost, as it was measured.
    #[serde(default)]
    pub(super) calibrated: Vec<Calibrated>,
}
