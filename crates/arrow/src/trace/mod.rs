//! Recorded schedules as tables.

mod blame;
mod events;
mod latency;
mod pcpus;
mod smt_siblings;
mod threads;

pub use blame::{blame, blame_schema};
pub use events::{Events, events, events_schema};
pub use latency::{latency, latency_schema};
pub use pcpus::{pcpus, pcpus_schema};
pub use smt_siblings::{smt_siblings, smt_siblings_schema};
pub use threads::{threads, threads_schema};
