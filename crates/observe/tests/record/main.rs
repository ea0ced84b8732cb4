//! Recordings of threads of this test, which know by their own clock what happened to them.

mod agree;
mod cost;
mod counts;
mod events;
mod flight;
mod limits;
mod perf;
mod scheduling;
mod stand;
mod wakes;

use lowtail_testkit::{needs, tries};
