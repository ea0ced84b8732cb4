//! A random search for guests that take more than their share, or make other VMs wait.
//!
//! Each run is a random host with a server as the victim, honest CPU loops, and one to three
//! attackers of random kinds, all of the same weight. It is run twice: as it is, and with
//! honest CPU loops of as many vCPUs in the attackers' places, the yardstick. Each run is a
//! scenario, written as a file would be, so that what was found can be run again, looked at
//! and changed.
//!
//! The same for the uplink of a host, with VMs that send; honest ones send a stream each.

mod fair_share;
mod finding;
mod judge;
mod measure;
mod options;
mod random_host;
mod random_uplink;
mod report;
mod search;

pub use finding::Finding;
pub use measure::Measure;
pub use options::AttackOptions;
pub use report::Attacks;
pub use search::attack;

use lowtail_engine::Rng;

use crate::span::span_us;

/// A span as a scenario has it.
fn span(rng: &mut Rng, low_us: u64, octaves: u64) -> String {
    format!("\"{}us\"", span_us(rng, low_us, octaves))
}
