//! How lengths of time vary.

use crate::rng::Rng;
use crate::time::Duration;

/// How the length of something varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Distribution {
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
}

impl Distribution {
    /// Always nothing.
    pub const ZERO: Distribution = Distribution::Fixed(Duration::ZERO);

    /// Draws one.
    pub fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Distribution::Fixed(span) => span,
            Distribution::Exponential(mean) => rng.exponential(mean),
            Distribution::Uniform(low, high) => rng.uniform(low, high),
        }
    }

    /// The mean.
    pub fn mean(self) -> Duration {
        match self {
            Distribution::Fixed(mean) | Distribution::Exponential(mean) => mean,
            Distribution::Uniform(low, high) => low + high.saturating_sub(low) / 2,
        }
    }
}
