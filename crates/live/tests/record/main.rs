//! Recordings of threads of this test, which know by their own clock what happened to them.

mod agree;
mod cost;
mod counts;
mod events;
mod flight;
mod limits;
#[path = "../common/needs.rs"]
#[allow(dead_code, reason = "another test wants more of it")]
mod needs;
mod perf;
mod stand;
#[path = "../common/tries.rs"]
#[allow(dead_code, reason = "another test wants more of it")]
mod tries;
