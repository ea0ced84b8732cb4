//! Where writes come from.

use lowtail_engine::Rng;

/// Where writes come from.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) traffic: u32,
    /// Its conversations.
    pub(super) first: u32,
    pub(super) n: u32,
    pub(super) rng: Rng,
}
