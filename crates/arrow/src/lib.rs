//! What lowtail has found as Arrow record batches, and those as Parquet files.
//!
//! * [`lab`]: outcomes of experiments: rows, claims, distributions, schedules, queues, completions.
//! * [`trace`]: what a recorded schedule says: latency and blame of each vCPU, and all events.
//! * [`observe`]: what an observer of a live host has seen, interval after interval.
//! * [`ParquetFile`]: batches as one file, which appears whole or not at all.
//! * [`History`]: batches that go on for months, as files within a bound of bytes.
//!
//! Each table is a function that returns a [`RecordBatch`]; [`tables()`] lists all with their columns, and
//! `docs/reference/parquet.md` is written from that list. Columns have the names and the figures of `--json`, bit by bit: both
//! are made from the same fields by the same functions (`lowtail_out::seconds`, `lowtail_lab::metric`). They are built directly from those
//! fields, so that a value is copied once. Each field's metadata has its unit and what it means (see [`UNIT`]).
//!
//! ```
//! use lowtail_lab::{Experiment, RunOptions};
//!
//! let text = "title = 'A loop'\nduration = '10ms'\n[host]\nscheduler = { kind = 'null' }\n\
//!     [vm.a]\nworkload = { kind = 'cpu-loop' }\n[[case]]\nname = 'one'\n";
//! let experiment = Experiment::parse("loop.toml", text, None).unwrap();
//! let outcome = lowtail_lab::run(&experiment, &RunOptions::default(), &|_| ()).unwrap();
//! let rows = lowtail_arrow::lab::rows(&[outcome]);
//! assert_eq!(rows.num_rows(), 1);
//! assert!(rows.column_by_name("cpus_used.a").is_some());
//! ```
#![warn(missing_docs)]

mod column;
mod description;
mod error;
mod file;
pub mod history;
pub mod lab;
#[cfg(feature = "observe")]
pub mod observe;
mod table;
pub mod trace;
mod word;
mod words;

pub use arrow_array::RecordBatch;
pub use arrow_schema::SchemaRef;
pub use column::{MEANING, UNIT};
pub use description::{Description, tables};
pub use error::Error;
pub use file::ParquetFile;
pub use history::History;
