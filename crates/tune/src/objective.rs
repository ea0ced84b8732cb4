//! One number for how good a point is, of which each search has its own.

use crate::evaluate::Score;

/// How much an excess over the target weighs, in parts of the work, for each factor of e. Reaching it is worth nearly all work.
const EXCESS: f64 = 3.0;
/// What it is worth to be shorter than the target, for each factor of e: among points that lose as much, the shorter one wins.
const BEYOND: f64 = 0.01;
/// What a key costs: a simpler policy wins where all else is as good.
const KEY: f64 = 0.001;
/// What has no figure at all is worse than all that has one.
const NONE: f64 = 1e3;

/// Loses the least work among points that use this part of their limits at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Objective {
    /// The part: 1 is the goal itself.
    pub(crate) target: f64,
}

impl Objective {
    /// How bad a point is that has this score, if it is one, and so many keys.
    pub(crate) fn of(self, score: Option<&Score>, keys: usize) -> f64 {
        let Some(score) = score.filter(|score| score.strain.is_finite()) else { return NONE };
        // What is seven times shorter is short enough.
        let over = (score.strain.max(1e-9) / self.target).ln().max(-2.0);
        EXCESS * over.max(0.0) + BEYOND * over + score.lost + KEY * keys as f64
    }
}
