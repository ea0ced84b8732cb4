//! What a measure has found.

use super::measure::Measure;

/// The worst of one measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// By which measure.
    pub measure: Measure,
    /// Which run, from 0.
    pub run: u32,
    /// The scheduler, or the queueing discipline, that let it happen.
    pub target: &'static str,
    /// The attacker that took too much; `loop` for [`Measure::Loss`], `bulk` for
    /// [`Measure::RateLoss`], `victim` for the tails.
    pub vm: String,
    /// Its workload.
    pub workload: String,
    /// What it had: a share in pCPUs, Mbit/s, or a time in microseconds.
    pub figure: f64,
    /// What it should have had.
    pub reference: f64,
    /// The same figure with honest loops in the attackers' places.
    pub honest: f64,
    /// The scenario, as a file.
    pub scenario: String,
}

impl Finding {
    /// How many times what it should have been; for the losses, how many times less.
    pub fn ratio(&self) -> f64 {
        match self.measure {
            // Who has nothing at all has lost a lot, but not infinitely much.
            Measure::Loss => self.reference / self.figure.max(1e-6),
            Measure::RateLoss => self.reference / self.figure.max(self.reference / 1000.0),
            _ => self.figure / self.reference,
        }
    }

    /// A name for the file with the scenario: one for each run of a seed.
    pub fn file_name(&self, seed: u64) -> String {
        format!("attack-{seed}-{}.toml", self.run)
    }
}
