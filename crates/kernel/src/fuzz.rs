//! The readers of this crate as functions of bytes that panic where something does not hold. For `lowtail-fuzz`.

pub use crate::cgroup::fuzz::{cpu_stat, mountinfo};
pub use crate::tc::fuzz::{netlink, tree_text};
