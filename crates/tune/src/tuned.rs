//! What a search has found.

use lowtail_predict::{Goal, Grade, Range};
use serde::{Serialize, Serializer};

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// The goals.
    pub goals: Vec<Goal>,
    /// What is lost least, in words.
    pub cost: String,
    /// How far the simulator agrees with the recording, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// As it is: nothing is changed.
    pub before: TunedPoint,
    /// Points that none is better than, by growing loss.
    pub points: Vec<TunedPoint>,
    /// The number of the point that reaches all goals and loses least, from 1 on; 0 if nothing has to be changed.
    pub chosen: Option<usize>,
    /// What limits the goals that no point reaches, in words.
    pub limits: Vec<String>,
    /// What cannot be set here.
    pub notes: Vec<String>,
    /// How many runs were simulated.
    pub evaluations: u64,
    /// Whether time ran out before the search was done: then the points depend on how fast the machine is.
    pub stopped: bool,
}

/// A goal's figure at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalOutcome {
    /// Whether it is a latency in microseconds, or else processor time in percent of a CPU.
    pub is_latency: bool,
    /// Least, middle and greatest of all runs; infinite where a VM hardly ran.
    pub figure: Range,
    /// By how much of the limit it is used, in the middle.
    pub strain: f64,
}

/// In base units, with the key of its kind.
impl Serialize for GoalOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Outcome {
            reached: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            latency_seconds: Option<Range>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cpu_ratio: Option<Range>,
        }
        let by = |factor: f64| {
            let Range { min, median, max } = self.figure;
            let of = |figure: f64| (figure * factor * 1e12).round() / 1e12;
            Range { min: of(min), median: of(median), max: of(max) }
        };
        let reached = self.strain <= 1.0;
        let latency_seconds = self.is_latency.then(|| by(1e-6));
        let cpu_ratio = (!self.is_latency).then(|| by(1e-2));
        Outcome { reached, latency_seconds, cpu_ratio }.serialize(serializer)
    }
}

/// A point with its figures, over runs by which it was not chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TunedPoint {
    /// What it changes, in short.
    pub changes: String,
    /// How many keys it changes.
    pub keys: usize,
    /// Whether it reaches all goals, in the middle of all runs.
    pub reached: bool,
    /// The figure of each goal.
    pub figures: Vec<GoalOutcome>,
    /// The part of the work that is lost.
    #[serde(rename = "loss_ratio")]
    pub lost: Range,
    /// What else gets worse, in words.
    pub worse: Vec<String>,
    /// The policy file that was simulated.
    pub policy: String,
}
