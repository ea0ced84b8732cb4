//! Control groups of a live host, with the controller `cpu`.

mod hierarchy;
mod stat;
mod tree;

pub(crate) use stat::parse as parse_stat;

pub use hierarchy::{Hierarchy, Version};
pub use tree::{Group, Tree};
