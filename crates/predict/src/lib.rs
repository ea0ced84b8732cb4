//! Runs a recorded schedule anew: under the scheduler under which it was recorded, to see how far the simulator can be trusted with it, and
//! under others.
#![warn(missing_docs)]

mod cause;
mod comparison;
mod components;
mod error;
mod grade;
mod groups;
mod history;
mod kernel;
mod model;
mod recording;
mod replay;
mod schedule;
mod tick;
mod timeline;
mod ways;
mod workload;

pub use comparison::{Comparison, Figures, Pair, WAKEUPS_MIN, WAKEUPS_MIN_P99};
pub use error::Error;
pub use grade::{Errors, Grade, Letter, TOLERANCE_US};
pub use kernel::recorded_scheduler;
pub use model::{COPIES_MAX, Model, Setup};
pub use recording::Recording;
pub use replay::{Replayed, replay};
pub use schedule::Experience;
