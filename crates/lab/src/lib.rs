//! The laboratory: scenario files, the catalogue of published experiments, runs, verdicts
//! against published figures, tables and reports.
//!
//! A scenario file is read into an [`Experiment`], whose cases are independent points;
//! [`run()`] turns it into an [`Outcome`] that follows from the file and the seed alone,
//! whatever the number of threads. Files that are wrong are refused with file, line and
//! column, and with what would be right.

pub mod attack;
mod blame_table;
pub mod case;
pub mod catalogue;
pub mod check;
pub mod claim;
pub mod costs;
mod cpu_set;
pub mod embedded;
pub mod error;
mod estimate;
pub mod experiment;
pub mod figure;
mod figures;
pub mod file;
mod in_step;
mod judge;
pub mod kvm;
mod limits;
pub mod markdown;
pub mod metric;
pub mod network;
pub mod options;
pub mod outcome;
mod overrides;
mod piece;
mod pool;
mod queue_blame;
pub mod quoted;
pub mod report;
pub mod row;
pub mod row_file;
pub mod run;
mod run_case;
pub mod scheduler;
pub mod schema;
pub mod score;
mod selection;
pub mod sensitivity;
mod simulation;
mod span;
pub mod table;
pub mod topology;
pub mod traffic;
mod tree;
pub mod trivial;
pub mod value;
pub mod verdict;
mod window;
pub mod workload;

pub use attack::{AttackOptions, Attacks, attack};
pub use case::spec::Case;
pub use catalogue::{find, is_path, load, load_with};
pub use embedded::{Embedded, experiments as catalogue, read as read_scenario};
pub use error::Error;
pub use experiment::Experiment;
pub use in_step::in_step;
pub use network::blame::{BlamedQueue, QueueBlame};
pub use network::list::completions;
pub use network::outcome::{Captured, Completion, QueueTrack};
pub use network::watch::Watch;
pub use options::RunOptions;
pub use outcome::{Outcome, Recording, json};
pub use overrides::{Override, as_options};
pub use piece::{Piece, join};
pub use pool::{Progress, run as run_pieces};
pub use row::Row;
pub use run::{run, run_until};
pub use schema::schema;
pub use score::Score;
pub use sensitivity::{Moved, Sensitivity, sensitivity};
pub use trivial::Trivial;
pub use verdict::Verdict;

/// Version of this crate, and so of the simulator's figures.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
