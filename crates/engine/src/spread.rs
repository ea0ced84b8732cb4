//! How lengths of time vary.

use crate::stream::Stream;
use crate::time::Duration;

/// How the length of something varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
}

impl Spread {
    /// Draws one.
    pub fn draw(self, stream: &mut Stream) -> Duration {
        match self {
            Spread::Fixed(span) => span,
            Spread::Exponential(mean) => stream.exponential(mean),
            Spread::Uniform(low, high) => stream.uniform(low, high),
        }
    }

    /// The mean.
    pub fn mean(self) -> Duration {
        match self {
            Spread::Fixed(mean) | Spread::Exponential(mean) => mean,
            Spread::Uniform(low, high) => low + high.saturating_sub(low) / 2,
        }
    }
}
