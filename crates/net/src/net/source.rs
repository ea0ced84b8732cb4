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
    /// Of a list: how many of its transfers have begun, and for each which of the conversations is its model.
    pub(super) begun: u32,
    pub(super) pairs: Vec<u32>,
}
