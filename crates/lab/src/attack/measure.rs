//! By what an attack is measured.

use crate::metric::{self, TimeUnit};

/// By what an attack is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// An attacker's share of the processors over its entitlement.
    Share,
    /// The largest share that it had in any 100 ms, over its entitlement.
    Window,
    /// Its share over that of an honest loop in its place.
    Gain,
    /// The share of the honest loops in the yardstick over what they have. Attackers ask for no
    /// more than loops in their places would, so that loops which have no more than their due in
    /// the yardstick lose nothing to attackers that are only served.
    Loss,
    /// The victim's 99.9th percentile over that of the yardstick.
    Tail,
}

impl Measure {
    pub(super) const ALL: [Measure; 5] =
        [Measure::Share, Measure::Window, Measure::Gain, Measure::Loss, Measure::Tail];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Share => "share",
            Measure::Window => "window",
            Measure::Gain => "gain",
            Measure::Loss => "loss",
            Measure::Tail => "tail",
        }
    }

    /// What the figure is divided by, in words.
    pub(super) fn reference(self) -> &'static str {
        match self {
            Measure::Share | Measure::Window => "entitled to",
            Measure::Gain | Measure::Loss | Measure::Tail => "honest",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        if self == Measure::Tail { "us" } else { "pCPUs" }
    }

    /// That of its figures in JSON.
    pub(super) fn base_unit(self) -> &'static str {
        if self == Measure::Tail { "seconds" } else { "pCPUs" }
    }

    /// A figure in it.
    pub(super) fn in_base_unit(self, figure: f64) -> f64 {
        match self {
            Measure::Tail => metric::in_base_unit("p99_9", figure, TimeUnit::Us).1,
            _ => figure,
        }
    }
}
