//! Runs a recorded schedule anew: under the scheduler under which it was recorded, to see how far the simulator can be trusted with it, and
//! under others.
#![warn(missing_docs)]

mod blame;
mod cause;
mod causes;
mod comparison;
mod components;
mod distribution;
mod error;
mod fit;
mod goal;
mod grade;
mod groups;
mod history;
mod kernel;
mod model;
mod policy;
mod prediction;
mod range;
mod recording;
mod replay;
mod runs;
mod schedule;
mod simulated;
mod table;
mod tick;
mod timeline;
mod waited;
mod waits;
mod ways;
mod workload;
mod write;

pub use blame::Ahead;
pub use cause::{Certainty, DecidedBy, Interrupts};
pub use causes::{Causes, Slope, shown as causes_shown};
pub use comparison::{Comparison, Figures, Pair, WAKEUPS_MIN, WAKEUPS_MIN_P99};
pub use distribution::Distribution;
pub use error::Error;
pub use fit::{FIT_MAX, Fit, Question, Tried, fit};
pub use goal::{Goal, GoalFigure};
pub use grade::{Errors, Grade, Letter, TOLERANCE_US};
pub use kernel::recorded_scheduler;
pub use model::{COPIES_MAX, Model, Setup};
pub use policy::put_in_force;
pub use prediction::{Change, Prediction, Ranges, VmPrediction, hardly_sleeps, predict};
pub use range::{Range, time};
pub use recording::Recording;
pub use replay::{Replayed, replay};
pub use schedule::Experience;
pub use simulated::simulated;
pub use table::figure_cells;
pub use waited::{Waited, shown as blame_shown};
pub use write::{Named, ScheduleWriter};
