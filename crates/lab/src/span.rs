//! Random spans for scenarios that are drawn.

use lowtail_engine::Rng;

/// Microseconds over `octaves` octaves from `low` on, each octave as likely as the others, and uniform within: as good as
/// log-uniform, and in whole numbers.
pub(crate) fn span_us(rng: &mut Rng, low: u64, octaves: u64) -> u64 {
    let octave = low << rng.below(octaves);
    octave + rng.below(octave)
}
