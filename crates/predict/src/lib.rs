//! Runs a recorded schedule anew: under the scheduler under which it was recorded, to see how far the simulator can be trusted with it, and
//! under others.
#![warn(missing_docs)]

mod cause;
mod comparison;
mod components;
mod error;
mod goal;
mod grade;
mod groups;
mod history;
mod kernel;
mod model;
mod policy;
mod prediction;
mod recording;
mod replay;
mod schedule;
mod table;
mod tick;
mod timeline;
mod ways;
mod workload;
mod write;

pub use comparison::{Comparison, Figures, Pair, WAKEUPS_MIN, WAKEUPS_MIN_P99};
pub use error::Error;
pub use goal::{Goal, GoalFigure};
pub use grade::{Errors, Grade, Letter, TOLERANCE_US};
pub use kernel::recorded_scheduler;
pub use model::{COPIES_MAX, Model, Setup};
pub use policy::put_in_force;
pub use prediction::{Change, Prediction, Range, Ranges, VmPrediction, predict};
pub use recording::Recording;
pub use replay::{Replayed, replay};
pub use schedule::Experience;
pub use write::{Named, ScheduleWriter};
