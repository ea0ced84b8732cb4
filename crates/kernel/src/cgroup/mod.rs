//! Control groups of a live host, with the controller `cpu`.

#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod hierarchy;
mod number;
mod stat;
mod tree;

pub use stat::{CpuStat, parse as parse_stat};

pub use hierarchy::{Hierarchy, Version};
pub use number::paths_of;
pub use tree::{Group, Tree};
