//! Outcomes of experiments as tables.
//!
//! `experiment` and `case` together name a row of all of them, as in `--json`: `case` is the name of the row, which is that of the case, with
//! the VM's if the case has several rows.

mod claims;
mod completions;
mod distributions;
mod queues;
mod rows;
mod schedules;

pub use claims::{claims, claims_schema};
pub use completions::{completions, completions_schema};
pub use distributions::{distributions, distributions_schema};
pub use queues::{queues, queues_schema};
pub use rows::{FigureColumns, rows, rows_schema};
pub use schedules::{schedules, schedules_schema};
