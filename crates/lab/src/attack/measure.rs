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
    /// The victim's 99.9th percentile over that beside neighbours that use as much in honest bursts.
    Tail,
    /// The same of a victim that keeps well within its share.
    QuietTail,
    /// At an uplink: a sender's rate over that of an honest stream in its place.
    RateGain,
    /// The rate of the honest stream beside honest ones over what it has.
    RateLoss,
    /// The victim's 99.9th percentile over that beside honest streams.
    FlowTail,
}

impl Measure {
    pub(super) const ALL: [Measure; 9] = [
        Measure::Share,
        Measure::Window,
        Measure::Gain,
        Measure::Loss,
        Measure::Tail,
        Measure::QuietTail,
        Measure::RateGain,
        Measure::RateLoss,
        Measure::FlowTail,
    ];

    /// Whether its figures are times.
    pub(super) fn is_tail(self) -> bool {
        matches!(self, Measure::Tail | Measure::QuietTail | Measure::FlowTail)
    }

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Share => "share",
            Measure::Window => "window",
            Measure::Gain => "gain",
            Measure::Loss => "loss",
            Measure::Tail => "tail",
            Measure::QuietTail => "quiet_tail",
            Measure::RateGain => "rate_gain",
            Measure::RateLoss => "rate_loss",
            Measure::FlowTail => "flow_tail",
        }
    }

    /// What the figure is divided by, in words.
    pub(super) fn reference(self) -> &'static str {
        match self {
            Measure::Share | Measure::Window => "entitled to",
            Measure::Gain
            | Measure::Loss
            | Measure::RateGain
            | Measure::RateLoss
            | Measure::FlowTail => "honest",
            Measure::Tail | Measure::QuietTail => "same use",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Measure::RateGain | Measure::RateLoss => "Mbit/s",
            measure if measure.is_tail() => "us",
            _ => "pCPUs",
        }
    }

    /// That of its figures in JSON.
    pub(super) fn base_unit(self) -> &'static str {
        match self {
            Measure::RateGain | Measure::RateLoss => "bits_per_second",
            measure if measure.is_tail() => "seconds",
            _ => "pCPUs",
        }
    }

    /// A figure in it.
    pub(super) fn in_base_unit(self, figure: f64) -> f64 {
        match self {
            Measure::RateGain | Measure::RateLoss => {
                metric::in_base_unit("mbit_per_second", figure, TimeUnit::Us).1
            }
            measure if measure.is_tail() => metric::in_base_unit("p99_9", figure, TimeUnit::Us).1,
            _ => figure,
        }
    }
}
