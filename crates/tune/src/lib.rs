//! Searches the parameters of a policy for the point that reaches goals of latency at the least loss of work.
//!
//! A [`Problem`] has parameters, and says what a choice of them gives: a recording that is run anew under the policy of that choice
//! ([`RecordedProblem`]), or a network scenario whose classifier has that rate and burst ([`ScenarioProblem`]). [`tune`] searches, and does not
//! know which of them it is. What it has chosen by some seeds it measures by others.
#![warn(missing_docs)]

mod anneal;
mod cost;
mod error;
mod evaluate;
mod front;
mod levels;
mod objective;
mod parallel;
mod parameter;
mod point;
mod polish;
mod problem;
mod progress;
mod prune;
mod recorded;
mod recorded_knobs;
mod recorded_limits;
mod recorded_parameters;
mod scenario;
mod scenario_file;
mod search;
mod table;
mod tuned;
mod xen_keys;

pub use cost::{Cost, CostFigure};
pub use error::Error;
pub use parameter::Parameter;
pub use point::Point;
pub use problem::{Effort, Measured, Problem, Run, VmMeasured};
pub use progress::Progress;
pub use recorded::RecordedProblem;
pub use scenario::ScenarioProblem;
pub use search::{Options, tune};
pub use tuned::{GoalOutcome, Tuned, TunedPoint};
